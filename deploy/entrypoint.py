"""Starts a service of the deployment, with the secrets that programs of others take from their environment alone.

For each of these names, NAME_FILE names a file that holds the value, as in the images of databases. Our own settings
read their files themselves. So no secret stands in what describes a container.
"""

import os
import sys
from pathlib import Path

NAMES = ("DAGSTER_POSTGRES_PASSWORD", "_SPARK_AUTH_SECRET")
"""Of Dagster's database, and of Spark's master and workers."""


def main() -> None:
    """Become the command of the arguments. A file that cannot be read ends it with one line."""
    for name in NAMES:
        file = os.environ.pop(f"{name}_FILE", None)
        if file is not None:
            try:
                os.environ[name] = Path(file).read_text().removesuffix("\n")
            except OSError as error:
                sys.exit(f"{name}_FILE: {file} cannot be read ({error.strerror}). Mount the secret where the user may.")
    if len(sys.argv) < 2:
        sys.exit("Name a command: see deploy/compose.yaml.")
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]} cannot be started: {error.strerror}.")


main()
