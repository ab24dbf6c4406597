# SPDX-License-Identifier: Apache-2.0
# The solution's side: loads solution.py, tells its names, and does what the judge asks.
import io


def main():
    peer = Peer(Wire(os.dup(0), os.dup(1)), False)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    module = type(sys)("solution")
    sys.modules["solution"] = module
    peer.space = module.__dict__
    try:
        with open("solution.py", "rb") as f:
            code = f.read()
        exec(compile(code, "solution.py", "exec"), peer.space)
    except SystemExit as e:
        peer.send(["error", ["RuntimeError"], [], "the solution ends itself: SystemExit %s" % e])
        os._exit(1)
    except Exception as e:
        peer.send(["error"] + peer.enc_error(e))
        os._exit(1)
    peer.printed = sys.stdout = io.StringIO()
    peer.send(["value", sorted(n for n in peer.space if type(n) is str), []])
    while True:
        peer.serve(peer.recv())


main()
