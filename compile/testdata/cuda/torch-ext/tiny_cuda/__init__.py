from ._ops import ops


def scaled(x, factor):
    return ops.scaled(x, factor)
