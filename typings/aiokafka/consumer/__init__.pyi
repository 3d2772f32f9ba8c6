from aiokafka import AIOKafkaConsumer as AIOKafkaConsumer
