"""The share coordinator, pure: what is persisted of the share partitions whose keys one partition of ``__share_group_state`` has.

The door is :mod:`~esp.share.coordinator.coordinator`. The state of a share partition is a snapshot and the updates after it
(:mod:`~esp.share.coordinator.state`); :mod:`~esp.share.coordinator.draft` decides about requests.
"""
