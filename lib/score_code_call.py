# SPDX-License-Identifier: Apache-2.0
# Loads solution.py, evaluates the call that stdin holds, and writes its value as JSON to where stdout was. What the
# solution prints is dropped. What the value should be is not known here.
import os


def main():
    task = json.load(sys.stdin.buffer)
    wire = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    module = type(sys)("solution")
    sys.modules["solution"] = module
    space = module.__dict__
    with open("solution.py", "rb") as f:
        code = f.read()
    exec(compile(code, "solution.py", "exec"), space)
    data = json.dumps(evaluate(task, space), default=plain).encode()
    while data:
        data = data[os.write(wire, data):]
    sys.stderr.flush()
    os._exit(0)


main()
