#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tls_server.py DIR: a judge behind TLS, for tests: its certificate is DIR/server.pem, its port goes to DIR/port.

Every question gets "Score: 8"; DIR/requests gets a line for each, with what stood in Authorization.
"""
import http.server
import json
import os
import socketserver
import ssl
import sys
import threading
import time

folder = sys.argv[1]


class Judge(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with open(os.path.join(folder, "requests"), "a") as f:
            f.write("%s %s\n" % (self.path, self.headers["Authorization"]))
        body = json.dumps({"choices": [{"message": {"content": "Score: 8"}, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingTCPServer):  # HTTPServer would ask the DNS for our name
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that does not trust us is what some tests are about


def end_with_parent():
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


server = Server(("127.0.0.1", 0), Judge)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.path.join(folder, "server.pem"), os.path.join(folder, "server.key"))
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=end_with_parent, daemon=True).start()
with open(os.path.join(folder, "port.new"), "w") as f:
    f.write("%d\n" % server.server_address[1])
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
server.serve_forever()
