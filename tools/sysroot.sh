#!/bin/sh
# sysroot.sh ARCH DIR - unpacks the libraries that a cross build for ARCH links into DIR.
#
# The packages are those of this machine's own distribution and package sources, for the other architecture, checked by
# apt as always. apt works in a state folder of its own below DIR, so the system's package state, lists and cache stay
# as they are; nothing is installed and no root is needed. Where the usual sources do not carry ARCH (Ubuntu keeps
# arm64 elsewhere), SYSROOT_SOURCES names a sources file to use instead.
# Writes DIR/sysroot.mk last: the Makefile takes it as the sign that DIR is whole.
set -eu

if [ $# != 2 ]; then
    echo "usage: tools/sysroot.sh ARCH DIR    (ARCH: aarch64)" >&2
    exit 2
fi
arch=$1 dir=$2
case $arch in
aarch64) debian_arch=arm64 ;;
x86_64) debian_arch=amd64 ;;
*)
    echo "sysroot.sh: no packages are known for $arch; set SYSROOT to a folder with sysroot.mk and usr/ in it" >&2
    exit 1
    ;;
esac
packages="libopenblas-serial-dev libjansson-dev libxxhash-dev libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev liblz4-dev"
packages="$packages libdeflate-dev libbrotli-dev libyaml-dev libevent-dev libcmocka-dev libcmocka0"

if ! command -v apt-get >/dev/null 2>&1; then
    echo "sysroot.sh: needs apt-get to fetch: $packages ($debian_arch)" >&2
    exit 1
fi

mkdir -p "$dir"
root=$(cd "$dir" && pwd)
apt=$root/apt
rm -rf "$root/usr" "$root/sysroot.mk" "$apt"
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/deb"
: >"$apt/status"
cat >"$apt/apt.conf" <<CONF
APT::Architecture "$debian_arch";
#clear APT::Architectures;
APT::Architectures { "$debian_arch"; };
APT::Sandbox::User "";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Acquire::Retries "3";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONF
if [ -n "${SYSROOT_SOURCES:-}" ]; then
    printf 'Dir::Etc::sourcelist "%s";\nDir::Etc::sourceparts "-";\n' "$(realpath "$SYSROOT_SOURCES")" >>"$apt/apt.conf"
fi

echo "sysroot: fetching $packages ($debian_arch)"
fail() {
    cat "$apt/log" >&2
    echo "sysroot.sh: $1" >&2
    exit 1
}
# A source that lacks this architecture makes update complain; the download below decides.
apt-get -c "$apt/apt.conf" update >"$apt/log" 2>&1 </dev/null || echo "sysroot: apt-get update complained; going on"
# shellcheck disable=SC2086
(cd "$apt/deb" && apt-get -c "$apt/apt.conf" download $packages >>"$apt/log" 2>&1 </dev/null) ||
    fail "could not fetch the $debian_arch packages; SYSROOT_SOURCES may name a sources file that has them"
for deb in "$apt"/deb/*.deb; do
    dpkg-deb -x "$deb" "$root" >>"$apt/log" 2>&1 || fail "cannot unpack $deb"
done
rm -rf "$apt"
echo "# Libraries for $arch are unpacked here by tools/sysroot.sh." >"$root/sysroot.mk"
