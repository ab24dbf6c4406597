# SPDX-License-Identifier: Apache-2.0
# The judge: runs tests (asserts and other statements) in a process of its own, where the names of the solution stand
# for objects in another. One child a test, so that no test sees another's traces. No solution runs here.
import ast, io, signal


class Eq(ast.NodeTransformer):
    """assert a == b keeps both values, for the message."""

    def visit_Assert(self, node):
        t = node.test
        if isinstance(t, ast.Compare) and len(t.ops) == 1 and isinstance(t.ops[0], ast.Eq):
            node.test = ast.copy_location(ast.Call(ast.Name("__equal__", ast.Load()), [t.left, t.comparators[0]], []), t)
        return node


def short(v):
    try:
        text = "an object of the solution" if type(v) is Remote else repr(v)
    except Exception:
        text = "?"
    return text if len(text) <= 200 else text[:200] + "..."


def bind(peer, space, names, trees):
    """The solution's names that the tests use. One that Python has too is Python's, so that no solution replaces all()
    or isinstance(), unless it is the only thing that the tests could mean."""
    used, made = set(), set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                (used if isinstance(node.ctx, ast.Load) else made).add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                made.add(node.name)
            elif isinstance(node, ast.arg):
                made.add(node.arg)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                made.update((a.asname or a.name).split(".")[0] for a in node.names)
    free = used - made
    others = [n for n in free if not hasattr(builtins, n)]
    for n in used & set(names):
        if n not in space and (not hasattr(builtins, n) or not others):
            space[n] = peer.ask("global", n)


def run(peer, task):
    text = task["test"]
    entry = task.get("entry")
    if entry and "def check(" in text and not any(l.startswith("check(") for l in text.split("\n")):
        text += "\ncheck(" + entry + ")\n"
    try:
        trees = [ast.parse(task["setup"], "setup"), ast.parse(text, "test")]
    except (SyntaxError, ValueError) as e:
        return {"v": "bad", "message": "%s: %s" % (type(e).__name__, e)}
    m = peer.recv()
    if m[0] != "value":
        return {"v": "error", "message": str(m[3]) if len(m) > 3 else "the solution did not load"}
    names = [n for n in m[1] if type(n) is str]
    seen = {}

    def equal(a, b):
        ok = a == b
        if not ok:
            seen["got"], seen["want"] = short(a), short(b)
        return ok

    module = type(sys)("__test__")
    sys.modules["__test__"] = module
    space = module.__dict__
    space["__equal__"] = equal
    try:
        bind(peer, space, names, trees)
        for tree in trees:
            exec(compile(ast.fix_missing_locations(Eq().visit(tree)), "test", "exec"), space)
    except AssertionError as e:
        return dict({"v": "wrong", "message": str(e)[:400]}, **seen)
    except Gone:
        raise
    except BaseException as e:
        if isinstance(e, ModuleNotFoundError) and not hasattr(e, "from_solution"):
            return {"v": "bad", "message": str(e)}
        return {"v": "error", "message": (type(e).__name__ + ": " + str(e))[:400]}
    return {"v": "ok"}


def judge(wire, data):
    peer = Peer(wire, True)
    try:
        answer = run(peer, json.loads(data))
    except Gone:
        answer = {"v": "gone"}
    except BaseException as e:
        answer = {"v": "error", "message": (type(e).__name__ + ": " + str(e))[:400]}
    wire.send(b"V", json.dumps(answer).encode())


def main():
    wire = Wire(os.dup(0), os.dup(1))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    while True:
        kind, data = wire.recv()
        if kind != b"T":
            continue  # meant for a test that has ended
        pid = os.fork()
        if pid == 0:
            sys.stdout = io.StringIO()
            judge(wire, data)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            wire.send(b"V", b'{"v":"error","message":"the test ended the process that it ran in"}')
            return  # who knows what it left unread


try:
    main()
except Gone:
    pass
