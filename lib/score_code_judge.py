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


class Broken(Exception):
    """A test that would pass whatever the solution is."""


MAIN = ("__name__ == '__main__'", "'__main__' == __name__")


def runs(node):
    """What is evaluated if node is run: not what functions hold, and not what only a program would do."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return
    yield node
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.ClassDef):
        parts = [s for s in node.body if not isinstance(s, (ast.Assign, ast.AnnAssign))]
    elif isinstance(node, ast.AnnAssign):
        parts = [node.value] if node.value else []
    elif isinstance(node, ast.ExceptHandler):
        parts = node.body
    elif isinstance(node, ast.If) and ast.unparse(node.test) in MAIN:
        parts = node.orelse
    for part in parts:
        yield from runs(part)


def uses(nodes, name):
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in nodes)


def checked(tree, entry):
    """Adds the call of check(candidate) that HumanEval leaves to others. What remains must do something that can fail:
    without any name that is not only printed with, no solution could make a difference."""
    checks = [s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "check" and
              (s.args.posonlyargs or s.args.args or s.args.vararg)]
    if checks and not uses(runs(tree), "check"):
        if entry:
            tree.body += ast.parse("check(" + entry + ")", "test").body
        elif not any(uses(ast.walk(s), "check") for s in tree.body if s not in checks):
            raise Broken("defines check(%s), which nothing calls: give the record an \"entry_point\", the name of the "
                         "function to check" % ast.unparse(checks[-1].args))
    if not any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id != "print" for n in runs(tree)):
        raise Broken("tests nothing: it runs no statement that can fail with a wrong solution, only definitions, "
                     "imports, constants, comments or pass")


def run(peer, task):
    try:
        trees = [ast.parse(task["setup"], "setup"), ast.parse(task["test"], "test")]
        checked(trees[1], task.get("entry"))
    except (SyntaxError, ValueError) as e:
        return {"v": "bad", "message": "cannot be run: %s: %s" % (type(e).__name__, e)}
    except Broken as e:
        return {"v": "bad", "message": str(e)}
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
            return {"v": "bad", "message": "cannot be run: %s" % e}
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
