"""Whether a code server has its code: the standard health check of gRPC is answered without that."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import ListRepositoriesResponse
from dagster._serdes import deserialize_value


def check(arguments: Sequence[str]) -> int:
    """Exit code: 0 when the server on `--port` (of `--host`, this machine by default) answers with its repositories; 1
    with the reason when it does not, or could not load its code."""

    @click.command()
    @click.option("--host", default="localhost")
    @click.option("--port", type=int, required=True)
    def options(host: str, port: int) -> int:
        try:
            found = deserialize_value(DagsterGrpcClient(host=host, port=port).list_repositories())
        except DagsterUserCodeUnreachableError as error:
            click.echo(f"The code server does not answer on port {port}: {error}", err=True)
            return 1
        if not isinstance(found, ListRepositoriesResponse):
            click.echo(f"The code location could not be loaded: {getattr(found, 'message', found)}", err=True)
            return 1
        click.echo("The code location is served.")
        return 0

    code = options.main(list(arguments), prog_name=f"{sys.argv[0]} --check", standalone_mode=False)
    return int(code or 0)
