"""The binary needs the C library and the loader only, so that it can be copied to another machine and run."""
import os
import subprocess

from checks import BUILD, check, finish

ALLOWED = ("linux-vdso.so", "linux-gate.so", "libc.so.", "libm.so.", "ld-linux", "libpthread.so.", "libdl.so.")
# `make` links the archive where there is one and says so; on a system without archives the rule cannot hold.
shared = [part.split(":")[0].strip() for part in os.environ.get("LIBS_LINE", "").split(";") if ": shared " in part]

listing = subprocess.run(["ldd", f"{BUILD}/retort"], capture_output=True, text=True)
check(listing.returncode == 0, f"ldd {BUILD}/retort: {listing.stderr}")
needed = [line.split()[0] for line in listing.stdout.splitlines() if line.strip()]
check(any("libc.so" in os.path.basename(n) for n in needed), f"{BUILD}/retort: not a dynamic program? {needed}")
for name in needed:
    base = os.path.basename(name)
    check(base.startswith(ALLOWED) or any(s in base for s in shared), f"{BUILD}/retort needs {name}")
finish()
