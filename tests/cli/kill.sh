# kill.sh - a distillation killed with SIGKILL five times, twice inside a checkpoint's write, resumes to the same bits.
# `make test-kill` does the same fifty times and more.
# Files on disk.
: "${RETORT:?names the binary}" "${BUILD:?names the build folder}"
exec python3 tools/kill_test.py --quick --retort "$RETORT" --checker "$BUILD/tests/check_checkpoints" --emu "${EMU:-}"
