"""The REST side: one resource a module, over SOQL and the org's transactions."""
