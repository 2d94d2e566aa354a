"""Tenant secrets of Shield Platform Encryption, as far as a client can tell (docs/salesforce-streams.md, "Encrypted
fields").

A value is encrypted with the key that is active when its record is saved. Rotating the key, and having all data
encrypted again in the background, change nothing that anybody reads and raise no event. A key that is destroyed takes
the values with it that it encrypted: reads show question marks for them until a backup of it is imported.
"""

from __future__ import annotations

import json
from dataclasses import replace

from sfcdc_assets.emulator.definitions.object_definition import TEXTS_ENCRYPTED
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.org.org_core import OrgCore

_SETTING = "encryption_keys"


class EncryptionKeys:
    """The keys of one org, kept in its database: the active one, and those before it."""

    def __init__(self, org: OrgCore) -> None:
        self._org = org

    @property
    def rotated_at(self) -> int | None:
        """Since when (epoch ms) what is saved has the active key; None: there was no other."""
        found: int | None = json.loads(self._org.database.setting(_SETTING) or "null")
        return found

    def rotate(self) -> None:
        """Activate another key from now on; the one before is archived, and reads what it has encrypted."""
        self._keep(self._org.clock())

    def encrypt_again(self) -> None:
        """Do what the background encryption service does: every value has the active key afterwards, and no key before
        it is needed any more. With `OrgSettings.reencryption_moves_modstamp`, SystemModstamp of its records moves."""
        self._keep(None)
        if not self._org.settings.reencryption_moves_modstamp:
            return
        with self._org.database.transaction():
            for definition in self._org.definitions.values():
                if any(field.encrypted for field in definition.fields):
                    self._org.database.execute(
                        f'UPDATE {quoted(definition.name)} SET "SystemModstamp" = ?',
                        (self._org.clock() // 1000 * 1000,),
                    )

    def destroy(self) -> None:
        """Destroy the archived keys. Raises RecordError where there is none, so that nothing would come of it."""
        if self.rotated_at is None:
            raise RecordError("INVALID_OPERATION", "no archived key is needed: rotate the active one first")
        self._read_from(self.rotated_at)

    def restore(self) -> None:
        """Import a backup of the destroyed keys."""
        self._read_from(0)

    def _keep(self, rotated_at: int | None) -> None:
        with self._org.database.transaction():
            self._org.database.set_setting(_SETTING, json.dumps(rotated_at))

    def _read_from(self, moment: int) -> None:
        """Let values be readable of records that were saved at this time or later only."""
        with self._org.database.transaction():
            for definition in list(self._org.definitions.values()):
                fields = tuple(
                    replace(field, readable_from=moment) if field.encrypted and field.type in TEXTS_ENCRYPTED else field
                    for field in definition.fields
                )
                if fields != definition.fields:
                    self._org.replace_definition(definition.with_fields(fields))
