"""Adds jobs to schedd, and takes runs from it."""

from .client import Aborted, ApiError, Client
from .worker import Again, Run, Stop, Worker

__all__ = ["Aborted", "Again", "ApiError", "Client", "Run", "Stop", "Worker"]
