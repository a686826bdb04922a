"""The folder of a phase's store, plain or sealed, and what no file of a sealed one may show."""
import os
import secrets
import shutil
import struct

from script import MARK
from store_files import found
from tenants import NAMES, SHARED

STORE_MIB = 128  # so that some of what is stored makes room


class StoreFolder:
    """The server of a sealed one has a key, but for the planted fault `unsealed`, which a look at the files must
    find."""

    def __init__(self, folder, is_sealed, plant):
        self.folder, self.is_sealed = folder, is_sealed
        self.has_key = is_sealed and plant != "unsealed"
        self.key, self.key_file = secrets.token_hex(32), folder + ".key"
        with open(os.open(self.key_file, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(self.key + "\n")

    def settings(self):
        """Of its server."""
        settings = [f"memory.disk.path={self.folder}", f"memory.disk.kv_mib={STORE_MIB}", "memory.disk.free_mib=0",
                    "memory.disk.min_tokens=16"]
        return settings + ([f"memory.disk.key_file={self.key_file}"] if self.has_key else [])

    def shows(self, mark_ids):
        """What can be read in any of its files. `mark_ids`: MARK's tokens, which scripts' texts have."""
        return found(self.folder, {
            "a text": [MARK.encode()], "its token ids": [struct.pack(f"<{len(mark_ids)}i", *mark_ids)],
            "a tenant's name": [name.encode() for name in NAMES], "a conversation's id": [f"{SHARED}.s".encode()],
            "the key": [self.key.encode(), bytes.fromhex(self.key)]})

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
