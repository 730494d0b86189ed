# alter_random.sh - one random byte of a run's files is changed, again and again, with a new seed each time: `retort verify`
# finds it, and `--resume` ends with the same bits or refuses. `make test-alter` does more of it.
: "${RETORT:?names the binary}"
for kind in control several cached; do
    trials=40
    [ $kind = control ] || trials=12
    python3 tools/alter_test.py verify --kind $kind --retort "$RETORT" --emu "${EMU:-}" --trials $trials --seconds 100 \
        --seed "${ALTER_SEED:-$(date +%s)}" || exit 1
done
exec python3 tools/alter_test.py resume --retort "$RETORT" --emu "${EMU:-}" --trials 12 --seconds 100 --seed "${ALTER_SEED:-$(date +%s)}"
