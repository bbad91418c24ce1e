# The smallest worker of schedd in Python.

import os
from schedd_client import Client, Worker

worker = Worker(Client(os.environ["SCHEDD_API_URL"]), "default", "greeter")


@worker.handler("greet")
def greet(name, run):
    print(f"hello {name}")


worker.run()
