# SPDX-License-Identifier: Apache-2.0
# The value of a call, in a solution's namespace or an empty one.
import json


def plain(v):
    """What JSON has no form for."""
    if isinstance(v, (set, frozenset)):
        try:
            return sorted(v)
        except TypeError:
            return list(v)
    if type(v).__module__.split(".")[0] == "numpy" and hasattr(v, "tolist"):
        return v.tolist()
    if hasattr(v, "__iter__"):
        return list(v)
    raise TypeError("a value of type " + type(v).__name__ + " has no JSON form")


def evaluate(task, space):
    value = eval(task["call"], space)
    return value(*task["args"]) if "args" in task else value
