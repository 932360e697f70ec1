"""Clients that authenticate by SASL: their connections before and their log-ins after; drives `esp.authentication`, loaded if needed."""
