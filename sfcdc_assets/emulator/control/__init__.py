"""The control resource below `/emulator`: what no Salesforce org lets anybody do or see. Served on loopback only, it
needs no token."""
