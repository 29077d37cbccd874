#!/usr/bin/env python3
"""Emulates as much of the API of Kubernetes as `kubectl get pods` and `kubectl exec -i` need, so that drivers in pods can be tried
with the real kubectl and without a cluster. A pod is this machine: `exec` runs its command here, with pipes over a WebSocket.

    bench/kubernetes_api.py --pods 2 --port 8001 &
    kubectl config set-cluster try --server=http://127.0.0.1:8001
    kubectl config set-context try --cluster=try
    kubectl config use-context try
    pgdyno run --driver kubectl:bench/app=pgdyno-driver --server URL -c 8

--end-after S ends each stream of `exec` after S seconds, as success; --freeze-after S leaves it open and silent.
"""
import argparse
import base64
import hashlib
import json
import socketserver
import struct
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255  # v5.channel.k8s.io


def pod(n):
    labels = {"app": "pgdyno-driver", "batch.kubernetes.io/job-completion-index": str(n)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pgdyno-driver-{n}", "namespace": "bench", "labels": labels},
        "spec": {"containers": [{"name": "driver", "image": "none"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "driver", "ready": True}]},
    }


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        args, parts = urllib.parse.parse_qs(query), path.strip("/").split("/")
        pods = [pod(n) for n in range(self.server.args.pods)]
        if path == "/api":
            self.answer({"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        elif path == "/api/v1":
            verbs = ["get", "list"]
            resource = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": verbs}
            self.answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]})
        elif parts[2:] == ["namespaces", "bench", "pods"]:
            wanted = args.get("labelSelector", ["app=pgdyno-driver"])[0]
            items = pods if wanted == "app=pgdyno-driver" else []
            self.answer({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
        elif parts[2:5] == ["namespaces", "bench", "pods"] and len(parts) == 6:
            found = [one for one in pods if one["metadata"]["name"] == parts[5]]
            self.answer(found[0]) if found else self.answer({"kind": "Status", "message": "no such pod"}, 404)
        elif parts[-1] == "exec" and self.headers.get("Upgrade", "").lower() == "websocket":
            self.exec(args["command"])
        else:
            self.answer({"kind": "Status", "message": f"not emulated: {self.path}"}, 404)

    def do_POST(self):
        self.answer({"kind": "Status", "message": "only WebSockets are emulated"}, 400)

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def exec(self, command):
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest()).decode()
        self.send_response(101)
        for name, value in [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", accept),
            ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
        ]:
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        self.lock, self.is_frozen, args = threading.Lock(), False, self.server.args
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        copies = [
            threading.Thread(target=self.copy, args=(source, channel), daemon=True)
            for source, channel in ((child.stdout, STDOUT), (child.stderr, STDERR))
        ]
        threading.Thread(target=self.feed, args=(child,), daemon=True).start()
        for copy in copies:
            copy.start()
        if args.freeze_after:
            time.sleep(args.freeze_after)
            self.is_frozen = True
            time.sleep(3600)
        if args.end_after:
            time.sleep(args.end_after)
        else:
            for copy in copies:
                copy.join()
        code = child.wait() if not args.end_after else 0
        causes = {"details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}, "reason": "NonZeroExitCode"}
        status = {"metadata": {}, "status": "Success"} if code == 0 else {"metadata": {}, "status": "Failure", **causes}
        self.send(STATUS, json.dumps(status).encode())
        self.frame(8, struct.pack("!H", 1000))

    def copy(self, source, channel):
        while data := source.read1(65536):
            self.send(channel, data)

    def send(self, channel, data):
        if not self.is_frozen:
            self.frame(2, bytes([channel]) + data)

    def frame(self, kind, data):
        size = len(data)
        head = bytes([0x80 | kind])
        head += bytes([size]) if size < 126 else b"\x7e" + struct.pack("!H", size) if size < 65536 else b"\x7f" + struct.pack("!Q", size)
        with self.lock:
            try:
                self.wfile.write(head + data)
                self.wfile.flush()
            except OSError:
                pass

    def feed(self, child):
        """What kubectl sends: its end leaves the process in the pod alive, as a killed kubectl does."""
        while (head := self.rfile.read(2)) and len(head) == 2:
            size = head[1] & 127
            if size > 125:
                size = int.from_bytes(self.rfile.read(2 if size == 126 else 8), "big")
            mask, data = self.rfile.read(4), self.rfile.read(size)
            data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
            kind = head[0] & 15
            if kind == 9:
                self.frame(10, data)
            elif kind in (0, 1, 2) and data[:1] == bytes([STDIN]):
                child.stdin.write(data[1:])
                child.stdin.flush()
            elif kind in (0, 1, 2) and data[:1] == bytes([CLOSE]):
                child.stdin.close()
                return
            elif kind == 8:
                return


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--end-after", type=float)
    parser.add_argument("--freeze-after", type=float)
    with Server(("127.0.0.1", (args := parser.parse_args()).port), Api) as server:
        server.args = args
        server.serve_forever()


main()
