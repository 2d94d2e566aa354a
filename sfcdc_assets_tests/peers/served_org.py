"""A fresh emulated org for a foreign client, and the environment that the client is given: settings, and no patch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, stock_definitions
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.jwt_key import JWT_KEY_FILE, own_public_key
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.peers.host_alias import HostAlias

LOGIN_HOSTS = ("login.salesforce.com", "test.salesforce.com")
MY_DOMAIN = "emulated.my.salesforce.com"


@dataclass(frozen=True)
class ServedOrg:
    """The org, its server, and a proxy at which Salesforce's own host names lead to it."""

    org: EmulatedOrg
    server: EmulatorServer
    proxy: str
    jwt_key_file: Path

    @property
    def settings(self) -> Mapping[str, str]:
        """Those of org.env."""
        return {**self.server.client_environment(), **self.server.other_clients_environment()}

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the org's settings, for a client that trusts the org's authority."""
        ca_file = str(self.server.ca_file)
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**kept, **self.settings, "NODE_EXTRA_CA_CERTS": ca_file, "REQUESTS_CA_BUNDLE": ca_file}

    @property
    def aliased_environment(self) -> dict[str, str]:
        """The same for a client that knows Salesforce's hosts only."""
        return {**self.environment, "HTTPS_PROXY": self.proxy, "https_proxy": self.proxy}

    def change_account(self, account: str, times: int) -> None:
        """So many change events."""
        for number in range(times):
            with self.org.transaction() as work:
                work.update("Account", account, {"Phone": f"{number}", "Site": f"site {number}"})


@contextmanager
def served_org(folder: Path, counts: Mapping[str, int], *, stock: bool = False) -> Iterator[ServedOrg]:
    """Serve an org with so many records of each object."""
    more = stock_definitions() if stock else ()
    org = EmulatedOrg(seed=len(counts), objects=[*built_in_definitions(), *more])
    org.populate(counts)
    folder.mkdir(parents=True, exist_ok=True)
    credentials = replace(org.settings.credentials, public_key=own_public_key(folder))
    org.settings = replace(org.settings, credentials=credentials, is_sandbox=True)
    names = (*LOGIN_HOSTS, MY_DOMAIN)
    try:
        with (
            EmulatorServer(org, directory=folder, host_names=names) as server,
            HostAlias(names, int(server.rest_url.rpartition(":")[2])) as alias,
        ):
            yield ServedOrg(org, server, alias.url, folder / JWT_KEY_FILE)
    finally:
        org.close()
