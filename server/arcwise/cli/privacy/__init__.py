"""The privacy report of a task or a group: one page that a privacy officer can read and sign."""

from arcwise.cli.privacy.page import privacy_page

__all__ = ["privacy_page"]
