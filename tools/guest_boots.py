"""Guest tests that need a boot of their own, each a function of the kernel's file.

A function returns None, or why the test failed. BOOTS names them in the order of their running.
"""

BOOTS = []
