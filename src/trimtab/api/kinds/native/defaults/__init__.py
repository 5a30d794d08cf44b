"""Defaults that kube-apiserver sets for fields missing in native objects.

Every function takes an object that was read by `codec` and returns a new one; its argument is not changed.
"""
