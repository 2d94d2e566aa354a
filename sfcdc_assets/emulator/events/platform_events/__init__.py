"""Platform events of the emulated org: their definitions, their schemas, and how they are published."""
