// Works due items in Java with nothing but Kafka's own client (Java 11 or newer). Run it as it stands:
//
//   java -cp 'jars/*' DueConsumer.java localhost:9092 due.LetterDue letters out
//
// The kind's definition says `dispatch: {kafka: {topic: due.LetterDue, settled_by: topic}}`, and
// `dueledger work --outcomes` records what this reports. See docs/other-languages.md.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class DueConsumer {
  public static void main(String[] args) throws Exception {
    if (args.length < 4) {
      throw new IllegalArgumentException("usage: SERVERS TOPIC GROUP FOLDER [OUTCOME_TOPIC]");
    }
    String servers = args[0], topic = args[1], group = args[2];
    Path folder = Path.of(args[3]);
    String outcomes = args.length > 4 ? args[4] : "due-outcomes";
    var bytes = new ByteArrayDeserializer();
    var consumer = new KafkaConsumer<byte[], byte[]>(Map.of(
        "bootstrap.servers", servers, "group.id", group, "max.poll.records", 100,
        "enable.auto.commit", false, "auto.offset.reset", "earliest"), bytes, bytes);
    var producer = new KafkaProducer<byte[], byte[]>(
        Map.of("bootstrap.servers", servers, "acks", "all"),
        new ByteArraySerializer(), new ByteArraySerializer());

    var stopping = new AtomicBoolean();
    Thread loop = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stopping.set(true);  // what was polled is finished first
      try { loop.join(); } catch (InterruptedException ignored) { }
    }));
    try (producer; consumer) {
      consumer.subscribe(List.of(topic));
      while (!stopping.get()) {
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        for (var record : consumer.poll(Duration.ofMillis(250))) {
          answers.add(producer.send(outcome(outcomes, record, answer(record, folder))));
        }
        if (answers.isEmpty()) continue;
        producer.flush();
        for (var sent : answers) sent.get();  // throws where an answer is not durable …
        consumer.commitSync();                // … and then the work comes again
      }
    }
    System.err.println("stopped");
  }

  /** Does the work of one item and returns the verdict, with what belongs to it, as JSON members. */
  private static String answer(ConsumerRecord<byte[], byte[]> record, Path folder) {
    try {
      String letter = write(record, folder);
      return "\"verdict\":\"completed\",\"evidence\":{\"letter\":" + quoted(letter) + "}";
    } catch (IllegalArgumentException unusable) {
      return "\"verdict\":\"park\",\"reason\":" + quoted(unusable.getMessage());
    } catch (IOException failure) {
      return "\"verdict\":\"retry\",\"after\":\"PT5M\",\"reason\":" + quoted(failure.toString());
    }
  }

  /** The effect. It may be asked for twice: the item's id is the key to have it once. */
  private static String write(ConsumerRecord<byte[], byte[]> record, Path folder)
      throws IOException {
    String payload = new String(record.value(), UTF_8);
    if (!payload.contains("\"address\"")) throw new IllegalArgumentException("no \"address\"");
    String letter = header(record, "ce_dueitem") + ".txt";
    Files.writeString(folder.resolve(letter), header(record, "ce_subject") + "\n" + payload + "\n");
    return letter;
  }

  /** What is reported: what the work record says about where it was handed out. */
  private static ProducerRecord<byte[], byte[]> outcome(
      String topic, ConsumerRecord<byte[], byte[]> record, String verdict) {
    String value = "{\"item\":" + quoted(header(record, "ce_dueitem"))
        + ",\"fence\":" + header(record, "ce_duefence")
        + ",\"token\":" + quoted(header(record, "ce_duetoken"))
        + ",\"position\":" + header(record, "ce_dueposition") + "," + verdict + "}";
    byte[] key = header(record, "ce_subject").getBytes(UTF_8);
    var outcome = new ProducerRecord<byte[], byte[]>(topic, key, value.getBytes(UTF_8));
    outcome.headers()
        .add("ce_specversion", "1.0".getBytes(UTF_8))
        .add("ce_id", (header(record, "ce_id") + ":outcome").getBytes(UTF_8))
        .add("ce_source", "/examples/java".getBytes(UTF_8))
        .add("ce_type", "dueledger.outcome".getBytes(UTF_8))
        .add("content-type", "application/json".getBytes(UTF_8));
    return outcome;
  }

  private static String header(ConsumerRecord<byte[], byte[]> record, String name) {
    return new String(record.headers().lastHeader(name).value(), UTF_8);
  }

  private static String quoted(String text) {
    var json = new StringBuilder("\"");
    for (char c : String.valueOf(text).toCharArray()) {
      if (c == '"' || c == '\\') json.append('\\').append(c);
      else if (c < ' ') json.append(String.format("\\u%04x", (int) c));
      else json.append(c);
    }
    return json.append('"').toString();
  }
}
