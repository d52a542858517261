"""`arcwise demo`: a year of real flights as a fleet of devices that use all of arcwise."""

from arcwise.cli.demo.command import demo

__all__ = ["demo"]
