"""THE table of symptoms: what is specific comes before what is general, the first that matches counts."""

from __future__ import annotations

from cockpit.supervisor.diagnose import kv
from cockpit.supervisor.diagnose.types import Symptom

SYMPTOMS: tuple[Symptom, ...] = (*kv.SYMPTOMS,)
BY_ID = {symptom.id: symptom for symptom in SYMPTOMS}
