"""Accepts TLS connections and sends what comes on to 127.0.0.1:PORT, unencrypted.

Arguments: certificate, key, PORT. Prints its own port.
"""

import socket
import ssl
import sys
import threading

certificate, key, port = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)


def copy(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


while True:
    connection, _ = listener.accept()
    try:
        client = context.wrap_socket(connection, server_side=True)
    except OSError:
        # A client that does not trust the certificate ends the handshake.
        continue
    server = socket.create_connection(("127.0.0.1", int(port)))
    for pair in [(client, server), (server, client)]:
        threading.Thread(target=copy, args=pair, daemon=True).start()
