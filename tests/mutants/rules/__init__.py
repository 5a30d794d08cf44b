"""All safety rules with their removals, by area."""

from mutants.rules import (
    access,
    console,
    decisions,
    handovers,
    members,
    movement,
    pods,
    production,
    scheduling,
    storage,
)

MUTANTS = (
    *decisions.MUTANTS,
    *movement.MUTANTS,
    *members.MUTANTS,
    *scheduling.MUTANTS,
    *pods.MUTANTS,
    *access.MUTANTS,
    *console.MUTANTS,
    *storage.MUTANTS,
    *production.MUTANTS,
    *handovers.MUTANTS,
)
