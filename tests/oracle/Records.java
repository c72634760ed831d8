import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Kafka's own reader and writer of record batches behind a pipe.
 *
 * <pre>java -cp JARS tests/oracle/Records.java</pre>
 *
 * Questions on standard input, one answer each on standard output, integers big-endian:
 *
 * <pre>
 * 'R' bytes SET  ->  0, bytes (what is in it, below)
 *                ->  1, bytes (why it cannot be read, UTF-8)
 * 'W' int8 MAGIC, int8 CODEC, int8 TIMESTAMP TYPE, int64 BASE OFFSET, int32 COUNT, records without offsets
 *                ->  0, bytes (the set)
 *                ->  1, bytes (why it cannot be written, UTF-8)
 *
 * set:     batches to the end
 * batch:   int8 magic, int64 base offset, int64 last offset, int32 leader epoch, int64 highest timestamp,
 *          int64 producer id, int16 producer epoch, int32 base sequence, int8 codec,
 *          int8 transactional, int8 control, int8 timestamp type, int32 count, records
 * record:  int64 offset, int64 timestamp, bytes key, bytes value, int32 count of headers, headers
 * header:  bytes key (UTF-8), bytes value
 * </pre>
 *
 * where bytes have an int32 length, -1 for null. Ends with its input.
 */
public final class Records {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            int question = in.read();
            if (question == -1) {
                return;
            }
            if (question != 'R' && question != 'W') {
                throw new IOException("no such question: " + question);
            }
            byte[] answer;
            byte status = 0;
            if (question == 'R') {
                byte[] set = bytes(in);
                try {
                    answer = read(set);
                } catch (RuntimeException error) {
                    status = 1;
                    answer = error.toString().getBytes(StandardCharsets.UTF_8);
                }
            } else {
                byte magic = in.readByte();
                Compression compression = Compression.of(CompressionType.forId(in.readByte())).build();
                TimestampType type = TimestampType.forName(in.readByte() == 0 ? "CreateTime" : "LogAppendTime");
                long baseOffset = in.readLong();
                SimpleRecord[] records = records(in);
                try {
                    answer = write(MemoryRecords.withRecords(magic, baseOffset, compression, type, records));
                } catch (RuntimeException error) {
                    status = 1;
                    answer = error.toString().getBytes(StandardCharsets.UTF_8);
                }
            }
            out.writeByte(status);
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    private static byte[] read(byte[] set) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(set));
        if (records.validBytes() != set.length) {
            throw new IllegalStateException(records.validBytes() + " of " + set.length + " bytes are batches");
        }
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            List<Record> inside = new ArrayList<>();
            for (Record record : batch) {
                record.ensureValid();
                inside.add(record);
            }
            out.writeByte(batch.magic());
            out.writeLong(batch.baseOffset());
            out.writeLong(batch.lastOffset());
            out.writeInt(batch.partitionLeaderEpoch());
            out.writeLong(batch.maxTimestamp());
            out.writeLong(batch.producerId());
            out.writeShort(batch.producerEpoch());
            out.writeInt(batch.baseSequence());
            out.writeByte(batch.compressionType().id);
            out.writeByte(batch.isTransactional() ? 1 : 0);
            out.writeByte(batch.isControlBatch() ? 1 : 0);
            out.writeByte(batch.timestampType().id);
            out.writeInt(inside.size());
            for (Record record : inside) {
                out.writeLong(record.offset());
                out.writeLong(record.timestamp());
                bytes(out, record.hasKey() ? array(record.key()) : null);
                bytes(out, record.hasValue() ? array(record.value()) : null);
                out.writeInt(record.headers().length);
                for (Header header : record.headers()) {
                    bytes(out, header.key().getBytes(StandardCharsets.UTF_8));
                    bytes(out, header.value());
                }
            }
        }
        return bytes.toByteArray();
    }

    private static SimpleRecord[] records(DataInputStream in) throws IOException {
        SimpleRecord[] records = new SimpleRecord[in.readInt()];
        for (int i = 0; i < records.length; i++) {
            long timestamp = in.readLong();
            byte[] key = bytes(in);
            byte[] value = bytes(in);
            Header[] headers = new Header[in.readInt()];
            for (int j = 0; j < headers.length; j++) {
                String name = new String(bytes(in), StandardCharsets.UTF_8);
                headers[j] = new RecordHeader(name, bytes(in));
            }
            records[i] = new SimpleRecord(timestamp, key, value, headers);
        }
        return records;
    }

    private static byte[] write(MemoryRecords records) {
        return array(records.buffer());
    }

    private static byte[] array(ByteBuffer buffer) {
        byte[] array = new byte[buffer.remaining()];
        buffer.duplicate().get(array);
        return array;
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }

    private static void bytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }
}
