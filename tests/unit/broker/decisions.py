"""What the handlers of controller listeners have a controller decide, for tests that have no listener."""

from esp.controller.alter_partition import decide_alter_partition
from esp.controller.directories import decide_assign_directories
from esp.controller.elections import decide_elect_leaders
from esp.controller.producer_ids import decide_producer_id_block
from esp.controller.topics import TopicCreation, decide_delete_topics


async def create_topics(driver, topics, random):
    config = driver.config
    return await driver.commit(
        lambda image: TopicCreation(image, config.defaults, config.validate_topic_configs, random).decide(
            topics, validate_only=False
        ),
        "Topic creation",
    )


async def delete_topics(driver, topics):
    return await driver.commit(lambda image: decide_delete_topics(image, topics), "Topic deletion")


async def allocate_producer_ids(driver, node_id, broker_epoch):
    return await driver.commit(lambda image: decide_producer_id_block(image, node_id, broker_epoch), "Producer ids")


async def alter_partitions(driver, sender, broker_epoch, changes):
    return await driver.commit(
        lambda image: decide_alter_partition(image, sender, broker_epoch, changes),
        "Alter partition",
    )


async def assign_directories(driver, node_id, broker_epoch, wanted):
    return await driver.commit(
        lambda image: decide_assign_directories(image, node_id, broker_epoch, wanted),
        "Directories",
    )


async def elect_leaders(driver, election, wanted):
    return await driver.commit(lambda image: decide_elect_leaders(image, election, wanted), "Leader election")


async def unregister_broker(driver, node_id):
    return await driver.unregister_broker(node_id)
