"""Runs a program as ``python PROGRAM`` does, but leaves without taking the interpreter down.

A gloo thread that still holds a tensor while Python is taken down aborts the process (pytorch/pytorch#179291), even
after ``destroy_process_group()``, since DistributedDataParallel keeps the group's threads alive
(4 runs of 100 with torch 2.13).
"""

import os
import runpy
import sys

sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
