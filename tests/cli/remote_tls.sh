# remote_tls.sh - a teacher behind TLS and behind proxies: remote_tls.py makes the certificates.
exec python3 "$(dirname "$0")/remote_tls.py"
