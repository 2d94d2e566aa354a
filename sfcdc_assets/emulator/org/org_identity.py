"""Which organization an emulated org is, and on which instance; both can change while it runs."""

from __future__ import annotations

from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.ids import id_suffix, instance_characters


class OrgIdentity:
    """Kept in the org's database."""

    database: Database
    seed: int

    @property
    def organization_id(self) -> str:
        """18 characters."""
        changed = self.database.setting("organization_id")
        if changed:
            return changed
        id15 = "00D" + instance_characters(self.seed) + "0000" + f"{self.seed % 100_000:05d}"
        return id15 + id_suffix(id15)

    def change_organization_id(self) -> str:
        """Give the org another id, as a refreshed sandbox has; returns it. Tokens of the old one are no longer good."""
        with self.database.transaction():
            number = int(self.database.setting("organization_ids") or 0) + 1
            id15 = "00D" + instance_characters(self.seed + number) + f"{number:04d}" + f"{self.seed % 100_000:05d}"
            self.database.set_setting("organization_ids", str(number))
            self.database.set_setting("organization_id", id15 + id_suffix(id15))
        return self.organization_id

    @property
    def instance_name(self) -> str:
        """Of the instance that the org is on."""
        return f"EMU{self.database.setting('instance_number') or 1}"

    def change_instance(self) -> str:
        """Put the org on another instance, under the same id; returns its name."""
        with self.database.transaction():
            self.database.set_setting("instance_number", str(int(self.database.setting("instance_number") or 1) + 1))
        return self.instance_name
