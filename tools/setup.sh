#!/bin/sh
# setup.sh - installs what building and testing need and this machine does not have, with the system's package manager.
#
#   tools/setup.sh            compiler, libraries, test library, python3
#   tools/setup.sh --bench    also the threaded OpenBLAS that `make bench-cpu` compares with
#   tools/setup.sh --cross    also a compiler and an emulator for aarch64
#   tools/setup.sh --interop  also Python's venv, for the packages that `make test-interop` compares with
#   tools/setup.sh --fuzz     also clang with libFuzzer
#   tools/setup.sh --browser  also Chromium and a font, for `make test-browser`
#   tools/setup.sh --ssh      also an ssh server, which tests/cli/dispatch.sh starts for itself on 127.0.0.1
#   tools/setup.sh --mpi      also Open MPI's mpirun and library, with which tests/cli/ranks.sh runs several ranks
#   tools/setup.sh --vulkan   also what shaders are built with, and Mesa's driver, on which `make test` runs them
#   tools/setup.sh --ci       all that .ci/run needs: --cross, --interop, --ssh, --mpi, --vulkan and clang
#
# It looks for the things themselves, not for packages, so nothing happens (and no network is needed) when they are
# there, however they came. As root, or where sudo asks for no password, it says what it installs and installs it;
# otherwise it prints the one line to run and stops with status 1. Debian 12 and Ubuntu 24.04 are tried.
set -eu

bench=0 cross=0 clang=0 interop=0 fuzz=0 browser=0 ssh=0 mpi=0 vulkan=0
# Where systemd runs, installing the package would also open this machine to the network: only when asked to.
[ -d /run/systemd/system ] || ssh=1
for arg in "$@"; do
    case $arg in
    --bench) bench=1 ;;
    --cross) cross=1 ;;
    --interop) interop=1 ;;
    --fuzz) clang=1 fuzz=1 ;;
    --browser) browser=1 ;;
    --ssh) ssh=1 ;;
    --mpi) mpi=1 ;;
    --vulkan) vulkan=1 ;;
    --ci) cross=1 clang=1 interop=1 ssh=1 mpi=1 vulkan=1 ;;
    *)
        echo "setup.sh: unknown argument '$arg'; it is one of --bench, --cross, --interop, --fuzz, --browser, --ssh," \
            "--mpi, --vulkan, --ci" >&2
        exit 2
        ;;
    esac
done

triplet=$(uname -m)-linux-gnu
missing=

# want PACKAGES TEST...: adds the packages when the test fails.
want() {
    packages=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $packages"
}
has_command() { command -v "$1"; }
has_header() {
    for dir in /usr/include "/usr/include/$triplet" /usr/local/include; do
        test -e "$dir/$1" && return 0
    done
    return 1
}
has_file() { test -e "$1"; }
has_curl() {
    for name in libcurl.so.4 libcurl-gnutls.so.4; do
        test -e "/usr/lib/$triplet/$name" || test -e "/usr/lib/$name" && return 0
    done
    return 1
}
has_vulkan_driver() { ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json | grep -q .; }
has_sshd() { PATH=$PATH:/usr/sbin:/usr/local/sbin has_command sshd; }
has_browser() {
    for name in "${CHROMIUM:-chromium}" chromium-browser google-chrome google-chrome-stable; do
        has_command "$name" && return 0
    done
    return 1
}
has_libfuzzer() { ls "$(clang -print-runtime-dir)"/libclang_rt.fuzzer*; }

# A machine may have a compiler without make, or gcc without a C library to compile against.
want gcc has_command gcc
want make has_command make
want libc6-dev has_header stdio.h
want python3 has_command python3
want libjansson-dev has_header jansson.h
want libxxhash-dev has_header xxhash.h
want libpcre2-dev has_header pcre2.h
want libutf8proc-dev has_header utf8proc.h
want zlib1g-dev has_header zlib.h
want libzstd-dev has_header zstd.h
want libdeflate-dev has_header libdeflate.h
want liblz4-dev has_header lz4.h
want libbrotli-dev has_header brotli/decode.h
want libyaml-dev has_header yaml.h
want libevent-dev has_header event2/http.h
want libcurl3-gnutls has_curl # opened at run time: any of its flavours will do
want libcmocka-dev has_header cmocka.h
if [ -z "${LIB_openblas:-}" ]; then
    want libopenblas-serial-dev has_file "/usr/lib/$triplet/openblas-serial/libopenblas.a"
fi
if [ $bench = 1 ]; then
    want libopenblas0-pthread has_file "/usr/lib/$triplet/openblas-pthread/libopenblas.so.0"
fi
if [ $clang = 1 ]; then
    want clang has_command clang
fi
if [ $browser = 1 ]; then
    want chromium has_browser
    want fonts-dejavu-core has_file /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
fi
if [ $ssh = 1 ]; then
    want openssh-client has_command ssh
    want openssh-server has_sshd
fi
if [ $mpi = 1 ]; then
    want openmpi-bin has_command mpirun
fi
if [ $vulkan = 1 ]; then
    want libvulkan-dev has_header vulkan/vulkan_core.h
    want glslang-tools has_command glslangValidator
    want spirv-tools has_command spirv-opt
    want mesa-vulkan-drivers has_vulkan_driver
fi
if [ $fuzz = 1 ]; then
    want libclang-rt-dev has_libfuzzer
fi
if [ $interop = 1 ]; then
    want python3-venv python3 -c 'import ensurepip, venv'
fi
if [ $cross = 1 ] && [ "$(uname -m)" != aarch64 ]; then
    want gcc-aarch64-linux-gnu has_command aarch64-linux-gnu-gcc
    want libc6-dev-arm64-cross has_file /usr/aarch64-linux-gnu/include/stdio.h
    want qemu-user has_command qemu-aarch64
fi

[ -n "$missing" ] || exit 0
missing=${missing# }

if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup.sh: these are missing, named as in Debian: $missing" >&2
    echo "setup.sh: there is no apt-get here; install them with this system's package manager" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    if ! sudo -n true >/dev/null 2>&1; then
        echo "setup.sh: packages are missing. Run this line, then try again:" >&2
        echo "sudo apt-get install -y --no-install-recommends $missing" >&2
        exit 1
    fi
    as_root="sudo -n"
fi

echo "setup: installing${as_root:+ with sudo}: $missing"
as_root="$as_root env DEBIAN_FRONTEND=noninteractive"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt-get is long-winded; its output is of interest only when it fails. Old package lists may still do, so a failed
# update is not the end.
$as_root apt-get -o Acquire::Retries=3 update >"$log" 2>&1 </dev/null || echo "setup: apt-get update failed; going on" >&2
# shellcheck disable=SC2086
if ! $as_root apt-get -o Acquire::Retries=3 install -y --no-install-recommends $missing >>"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "setup.sh: apt-get could not install: $missing" >&2
    exit 1
fi
echo "setup: installed"
