"""Bugs that show when bits rot, and when a node comes back with another disk."""

from typing import Final

from esp.simulation.tiers import LOG
from tests.mutants.mutant import DOUBTED_MARKERS, ROTTEN_COPIES, Mutant

ROT_MUTANTS: Final = (
    Mutant(
        "rot-is-served",
        "REC-4 broken",
        "REC-4",
        "esp.storage.log_reader",
        "    size, problem = _measure_sound(view, offset, end_offset)\n",
        "    size, problem = len(view), None\n",
        node_count=3,
    ),
    Mutant(
        "who-begins-anew-is-counted-as-before",
        "REC-4 broken",
        "REC-4",
        "esp.controller.partition_change",
        "state.leader or leaves or rot_matters else",
        "state.leader or leaves else",
        kind=ROTTEN_COPIES,
    ),
    Mutant(
        "rotten-replica-stays",
        "REC-4 broken",
        "REC-4",
        "esp.broker.replication.rotten_replicas",
        "        if hosted not in self._replicas or state is None:\n",
        "        if hosted not in self._replicas or state is not None:\n",
        node_count=3,
    ),
    Mutant(
        "nobody-scrubs",
        "REC-4 broken",
        "REC-4",
        "esp.broker.replication.maintenance",
        "                while offset < replica_log.sealed_end_offset:\n",
        "                while offset < replica_log.log_start_offset:\n",
        node_count=3,
    ),
    Mutant(
        "rotten-index-is-believed",
        "REC-4 broken",
        "REC-4",
        "esp.storage.segment",
        "            if len(chunk) < HEADER_SIZE or read_header(chunk).last_offset != entry:\n",
        "            if len(chunk) < HEADER_SIZE:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-times-make-records-old",
        "REC-4 broken",
        "REC-4",
        "esp.storage.log",
        "                not segment.has_unproven_time,\n",
        "                True,\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-times-mislead-searches",
        "REC-4 broken",
        "REC-4",
        "esp.storage.segments",
        "        if told is None or told.timestamp < 0:\n",
        "        if told is None or told.timestamp < LONG_MAX:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-headers-hide-records",
        "REC-4 broken",
        "REC-4",
        "esp.storage.timestamp_search",
        "        if last_offset >= proven_end:\n",
        "        if last_offset < 0:\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-headers-are-believed-at-start",
        "REC-4 broken",
        "REC-4",
        "esp.storage.segment_recovery",
        "trusted_end, note_flushed_rot=note_flushed_rot)\n",
        "trusted_end)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "segments-of-unknown-times-are-passed",
        "REC-4 broken",
        "REC-4",
        "esp.storage.segment",
        "        return self.time_rot is None and self.max_timestamp < timestamp\n",
        "        return self.max_timestamp < timestamp\n",
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-replica-is-moved-for-ever",
        "REC-4 broken",
        "REC-4",
        "esp.broker.replication.log_dir_move",
        """                pause_us = await self._step()
""",
        """                try:
                    pause_us = await self._step()
                except CorruptionError:
                    pause_us = 1_000_000
""",
        is_gap=True,
        covered_by="tests/unit/broker/replication/test_log_dir_moves.py::"
        "test_the_move_of_a_rotten_replica_that_is_alone_in_sync_is_given_up",
    ),
    Mutant(
        "stopped-replica-is-moved-for-ever",
        "TRUNC-8 broken",
        "TRUNC-8",
        "esp.broker.replication.log_dir_move",
        "                if self.hosted.is_offline:\n",
        "                if self.hosted.is_offline and self._stopped:\n",
        is_gap=True,
        covered_by="tests/unit/broker/replication/test_log_dir_moves.py::"
        "test_a_replica_that_is_stopped_rather_than_cut_moves_no_more",
    ),
    Mutant(
        "rotten-checkpoint-stops-the-node",
        "REC-6 broken",
        "REC-6",
        "esp.storage.checkpoints",
        "    except (ValueError, OSError) as error:\n",
        "    except OSError as error:\n",
        tiers=(LOG,),
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
        tiers=(LOG,),
    ),
    Mutant(
        "rotten-batches-count-for-producers",
        "REC-4 broken",
        "PROD-7",
        "esp.storage.segment_recovery",
        "(file, position, end, LONG_MAX if note_rot is None else 0, note_rot)\n",
        "(file, position, end, LONG_MAX, note_rot)\n",
        tiers=(LOG,),
    ),
    Mutant(
        "any-disk-votes",
        "RAFT-45 broken",
        "RAFT-45",
        "esp.raft.voters",
        "if voter is None or voter.key == key or voter.key.directory_id == ZERO_UUID:",
        "if voter is None or voter.key == key or voter.key.directory_id != key.node_id:",
        node_count=3,
    ),
    Mutant(
        "old-marker-is-a-clean-one",
        "KAFKA-15586, KIP-966",
        "BRK-2",
        "esp.controller.brokers",
        "        is_clean = registration.previous_broker_epoch == image.brokers[node_id].epoch\n",
        "        is_clean = 0 <= registration.previous_broker_epoch <= image.brokers[node_id].epoch\n",
        node_count=3,
    ),
    Mutant(
        "copy-of-a-running-node-is-whole",
        "BRK-3 broken",
        "BRK-3",
        "esp.storage.clean_marker",
        '            is_left = content["bootId"] == boot_id and content["file"] == self._disk.stat(self._path).identity\n',
        '            is_left = content["bootId"] == boot_id\n',
        node_count=5,
    ),
    Mutant(
        "marker-is-believed-against-the-setting",
        "BRK-3 broken",
        "BRK-3",
        "esp.storage.last_stop",
        "        return directory.running_marker.survived_epoch(boot_id) if trusts_running_markers else NO_BROKER_EPOCH\n",
        "        return directory.running_marker.survived_epoch(boot_id)\n",
        kind=DOUBTED_MARKERS,
        first=168,
    ),
)
