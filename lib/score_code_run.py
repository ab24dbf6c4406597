# SPDX-License-Identifier: Apache-2.0
# Runs solution.py as `python3 solution.py ARGS...` does, in a namespace as empty as there.
sys.argv[0] = "solution.py"
with open("solution.py", "rb") as code:
    code = compile(code.read(), "solution.py", "exec")
del builtins, sys, leave
exec(globals().pop("code"))
