"""Stops a job at every step that it takes in the world, and looks at what is left.

disk.py       a disk that loses what was not forced to it, and may tear what was
servers.py    Kafka, PostgreSQL and receivers of posts, with their promises
world.py      the ``World`` of a job over these: every step can be the last, or fail
scripts.py    a random job, what is sent to it, and what the definition makes of that
enumerate.py  runs a script, stops it at each step, starts it again, and compares
faults.py     the same with a fault of the world at each step
"""
