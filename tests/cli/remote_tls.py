#!/usr/bin/env python3
"""remote_tls.py - `--teacher https://...` and proxies, as libcurl has them: a terminator of TLS in front of `retort serve` with
certificates of a CA of our own, of another one, expired, and for another name; proxies that pass on, tunnel, and refuse.

Needs the standard library, libcurl, the openssl command and $RETORT; ends with `N passed, N failed`.
"""
import os
import select
import shutil
import socket
import ssl
import subprocess
import threading

from remote_between import ASK, Between, content, ends, inputs
from serve_client import Server, call, check, make, run


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def authority(name):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "30", "-subj", f"/CN={name}")


def certificate(name, ca, subject, begin=None, end=None):
    """name.pem with its key: of a server that is called subject. Dates: of a certificate that is not valid today."""
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    with open("extensions", "w") as f:
        f.write(f"subjectAltName={subject}\n")
    if not begin:
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "30",
                "-extfile", "extensions", "-out", f"{name}.crt")
    else:
        open("index", "w").close()
        with open("serial", "w") as f:
            f.write("1000\n")
        with open("ca.conf", "w") as f:
            f.write("[ca]\ndefault_ca=x\n[x]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\nx509_extensions=e\n"
                    f"[p]\ncommonName=supplied\n[e]\nsubjectAltName={subject}\n")
        openssl("ca", "-batch", "-config", "ca.conf", "-cert", f"{ca}.pem", "-keyfile", f"{ca}.key", "-in", f"{name}.csr", "-out", f"{name}.crt",
                "-startdate", begin, "-enddate", end, "-notext")
    return f"{name}.crt", f"{name}.key"


def terminator(server, pair):
    """TLS in front of the server."""
    between = Between(server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    between.socket = context.wrap_socket(between.socket, server_side=True)
    return f"https://127.0.0.1:{between.server_address[1]}"


class Proxy:
    """CONNECT to anywhere, and requests for whole addresses; `refuse`: neither."""

    def __init__(self, refuse=False):
        self.refuse, self.asked = refuse, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.socket.accept()[0],), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(65536)
            if not part:
                return
            head += part
        method, where, _ = head.split(b"\r\n")[0].split()
        self.asked.append((method.decode(), where.decode()))
        if self.refuse:
            client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!")
            client.close()
            return
        host = where if method == b"CONNECT" else where.split(b"/")[2]
        name, port = host.decode().split(":")
        there = socket.create_connection((name, int(port)))
        if method == b"CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:  # the path alone, as a server has it
            there.sendall(head.replace(where, b"/" + where.split(b"/", 3)[3], 1))
        while True:
            for ready in select.select([client, there], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    client.close()
                    there.close()
                    return
                (there if ready is client else client).sendall(data)


def cache(url, out, **environment):
    env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    return call("cache", "--teacher", url, *ASK, "--keep", "topk:16", "--out", out, env={**env, **environment})


def same(out, what):
    check(os.path.isdir(out) and content(out) == content("here"), f"{what}: other bits than without")


def tls(server):
    authority("ours")
    authority("theirs")
    here = "IP:127.0.0.1"
    good = terminator(server, certificate("good", "ours", here))
    ends(cache(f"{good},ca-file=ours.pem", "good"), 0)
    same("good", "TLS")
    none = lambda: check(not os.path.exists("none"), "a cache that could not be asked for is left")
    ends(cache(good, "none"), 10, "https://127.0.0.1:.*certificate.*ca-file=FILE")  # of no CA that this machine knows
    none()
    ends(cache(f"{good},ca-file=theirs.pem", "none"), 10, "certificate")
    none()
    ends(cache(f"{good},ca-file=nowhere.pem", "none"), 3, "nowhere.pem")
    expired = terminator(server, certificate("expired", "ours", here, "20200101000000Z", "20200201000000Z"))
    ends(cache(f"{expired},ca-file=ours.pem", "none"), 10, "expired")
    none()
    named = terminator(server, certificate("named", "ours", "DNS:elsewhere.example"))
    ends(cache(f"{named},ca-file=ours.pem", "none"), 10, "127.0.0.1")
    none()
    ends(cache(f"https://127.0.0.1:{server.port}", "none"), 10, "does not answer .*(SSL|TLS|ssl|tls)")  # it speaks no TLS
    none()
    plain = good.replace("https", "http")
    ends(cache(plain, "none"), 10, "does not answer|no such server")  # and this one speaks nothing else
    none()
    tunnel = Proxy()
    ends(cache(f"{good},ca-file=ours.pem", "tunnelled", https_proxy=tunnel.url), 0)
    same("tunnelled", "a tunnel")
    check({method for method, _ in tunnel.asked} == {"CONNECT"}, f"the proxy was asked {tunnel.asked[:1]}")
    ends(cache(f"{good},ca-file=ours.pem", "none", https_proxy=Proxy(refuse=True).url), 10, "does not answer .*403")


def proxies(server):
    url = f"http://127.0.0.1:{server.port}"
    proxy = Proxy()
    ends(cache(url, "passed", http_proxy=proxy.url), 0)
    same("passed", "a proxy")
    check(proxy.asked and proxy.asked[0][0] == "GET" and proxy.asked[0][1].startswith(url), f"the proxy was asked {proxy.asked[:1]}")
    around = Proxy()
    ends(cache(url, "around", http_proxy=around.url, no_proxy="127.0.0.1"), 0)
    check(not around.asked, "no_proxy is passed over")
    ends(cache(url, "none", http_proxy=Proxy(refuse=True).url), 5, "wants a token.*no!")
    ends(cache(url, "none", http_proxy="http://127.0.0.1:9"), 10, "does not answer")
    check(not os.path.exists("none"), "a cache that could not be asked for is left")


def main():
    inputs()
    make("cache", "--teacher", "t", *ASK, "--keep", "topk:16", "--out", "here")
    server = Server("t", "--context", 128, "--slots", 1, "--threads", 1)
    proxies(server)
    if shutil.which("openssl"):
        tls(server)
    else:
        print("skipped: TLS (there is no openssl command to make certificates with)")
    check(server.stop() == (0, ""), "the server ends well")


run(main)
