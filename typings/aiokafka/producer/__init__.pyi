from aiokafka import AIOKafkaProducer as AIOKafkaProducer
