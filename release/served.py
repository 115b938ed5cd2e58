"""Files below FOLDER on a free port of this machine, whose number is printed; the newest release is TAG.

    served.py FOLDER TAG
"""

import http.server
import sys

folder, tag = sys.argv[1:]


class Releases(http.server.SimpleHTTPRequestHandler):
    """Answers as the host of releases does: the address of the newest one leads to that of its tag."""

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=folder)

    def send_head(self):
        if self.path == "/releases/latest":
            self.send_response(302)
            self.send_header("Location", f"/releases/tag/{tag}")
        elif self.path == f"/releases/tag/{tag}":
            self.send_response(200)
        else:
            return super().send_head()
        self.end_headers()
        return None


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Releases)
print(server.server_port, flush=True)
server.serve_forever()
