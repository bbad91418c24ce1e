#!/usr/bin/env python3
"""Checks a server or a client against the protocol of docs/workers.md. One line for each check.

  conformance.py server --url URL --token-file F --admin-token-file F --queue Q [--stop CMD]
      F: a token of the role worker, and one of the role admin that may add jobs. CMD: a shell command that stops the
      server.
  conformance.py client [--only TEXT] -- CMD [ARG...]
      CMD starts a worker; {url}, {queue} and {token_file} in it are replaced. Its handler "conformance" does what its
      payload says: see README.md. --only: only the checks whose lines have this text.
The exit code is 1 if a check failed.
"""

import sys

sys.dont_write_bytecode = True

import argparse  # noqa: E402
import pathlib  # noqa: E402

import client_checks  # noqa: E402
import server_checks  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    server = kinds.add_parser("server")
    server.add_argument("--url", required=True)
    server.add_argument("--token-file", required=True, type=pathlib.Path)
    server.add_argument("--admin-token-file", required=True, type=pathlib.Path)
    server.add_argument("--queue", required=True)
    server.add_argument("--stop", default="")
    client = kinds.add_parser("client")
    client.add_argument("--only", default="")
    client.add_argument("command", nargs="+")
    given = parser.parse_args()
    if given.kind == "client":
        results = client_checks.run(given.command, given.only)
    else:
        tokens = [path.read_text().strip() for path in (given.token_file, given.admin_token_file)]
        results = server_checks.run(given.url, tokens[0], tokens[1], given.queue, given.stop)
    failed = 0
    for name, fault in results:
        failed += fault is not None
        print(f"ok    {name}" if fault is None else f"FAIL  {name}: {fault}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
