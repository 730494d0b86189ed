# usage.sh - help, versions, and what a wrong word on the command line gets: status 2 and the nearest known word.
. "$(dirname "$0")/harness"

run --help
exits 0
out_has '^usage: retort'
out_has '^  doctor '
out_has '^  verify '
err_empty
# Commands that are not built are not promised.
out_lacks '^  cache '

run --version
exits 0
out_has '^retort [0-9]+\.[0-9]+\.[0-9]+'

run
exits 2
out_empty
err_has 'usage: retort'

for command in convert doctor init inspect quantize verify; do
    run $command --help
    exits 0
    out_has "retort $command"
    out_has '[Ee]xample'
    out_has '--json'
    err_empty
done

run verfy
exits 2
out_empty
err_one_line
err_has "verfy"
err_has "verify"

run distill
exits 2
err_has "distill"

run doctor --jsn
exits 2
out_empty
err_one_line
err_has '--jsn'
err_has '--json'

run verify --bakend cpu
exits 2
out_empty
err_one_line
err_has '--bakend'
err_has '--backend'

run verify --quik
exits 2
err_has '--quick'

# Nothing is near this one, so nothing is suggested; it is still named.
run verify --zzzzzzzzzzzzzzz
exits 2
err_has '--zzzzzzzzzzzzzzz'

run verify --backend
exits 2
err_has '--backend'

run doctor extra
exits 2
err_has 'extra'

run verify --threads none
exits 2
err_has '--threads'

run verify --threads -1
exits 2
err_has '--threads'
finish
