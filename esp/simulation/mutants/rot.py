"""Bugs that show when bits rot, and when a node comes back with another disk."""

from typing import Final

from esp.simulation.mutants.mutant import Mutant

ROT_MUTANTS: Final = (
    Mutant(
        "rot-is-served",
        "REC-4 broken",
        "REC-4",
        "esp.storage.soundness",
        "    size, problem = _measure_sound(view, offset, end_offset)\n",
        "    size, problem = len(view), None\n",
        node_count=3,
    ),
    Mutant(
        "rotten-replica-stays",
        "REC-4 broken",
        "REC-4",
        "esp.broker.rotten_replicas",
        "        return hosted in self._replicas and state is not None and any(node != self._node_id for node in state.isr)\n",
        "        return hosted in self._replicas and state is None\n",
        node_count=3,
        is_gap=True,
    ),
    Mutant(
        "nobody-scrubs",
        "REC-4 broken",
        "REC-4",
        "esp.broker.maintenance",
        "                while offset < replica_log.sealed_end_offset:\n",
        "                while offset < replica_log.log_start_offset:\n",
        node_count=3,
        is_gap=True,
    ),
    Mutant(
        "rotten-index-is-believed",
        "REC-4 broken",
        "REC-4",
        "esp.storage.segment",
        "            if len(chunk) < HEADER_SIZE or read_header(chunk).last_offset != entry:\n",
        "            if len(chunk) < HEADER_SIZE:\n",
        node_count=3,
        is_gap=True,
    ),
    Mutant(
        "rotten-checkpoint-stops-the-node",
        "REC-6 broken",
        "REC-6",
        "esp.storage.checkpoints",
        "    except (ValueError, OSError) as error:\n",
        "    except OSError as error:\n",
        node_count=3,
        is_gap=True,
    ),
    Mutant(
        "rotten-epochs-stop-the-node",
        "LOG-10 broken",
        "LOG-10",
        "esp.storage.recovery",
        """        except CorruptionError as error:
            _logger.warning("%s is rebuilt from the log: %s", path, error)
            return False
""",
        """        except CorruptionError as error:
            raise AssertionError(path) from error
""",
        node_count=3,
        is_gap=True,
    ),
    Mutant(
        "any-disk-votes",
        "RAFT-45 broken",
        "RAFT-45",
        "esp.raft.voters",
        "                voter.key.directory_id == key.directory_id or voter.key.directory_id == ZERO_UUID\n",
        "                voter.key.directory_id == key.directory_id or voter.key.directory_id != key.node_id\n",
        node_count=3,
    ),
    Mutant(
        "old-marker-is-a-clean-one",
        "KAFKA-15586, KIP-966",
        "BRK-2",
        "esp.controller.brokers",
        "        is_clean = registration.previous_broker_epoch == existing.epoch\n",
        "        is_clean = 0 <= registration.previous_broker_epoch <= existing.epoch\n",
        node_count=3,
        is_gap=True,
    ),
)
