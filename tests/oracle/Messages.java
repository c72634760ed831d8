import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Kafka's own message classes behind a pipe: reads a message and writes it again.
 *
 * <pre>java -cp JARS tests/oracle/Messages.java</pre>
 *
 * Questions on standard input, one answer each on standard output, integers big-endian:
 *
 * <pre>
 * 'M' string NAME, int16 VERSION, bytes BODY  ->  0, bytes (what the class of NAME writes)
 *                                             ->  1, bytes (why it could not, UTF-8)
 *                                             ->  2        (it has no such version)
 * 'H' int16 API, int16 VERSION                ->  int16 version of the request's header, int16 of the response's
 *                                             ->  -1, -1   (there is no such version)
 * 'T' int16 API, int16 VERSION, bytes BODY    ->  does a client wait out the throttle time of this response? 0 or 1
 * 'E' int16 CODE                              ->  string name ("" if it is unknown), is it retriable? 0 or 1
 * </pre>
 *
 * where a string has an int16 length and bytes an int32. Ends with its input.
 */
public final class Messages {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            int question = in.read();
            switch (question) {
                case -1:
                    return;
                case 'M':
                    message(in, out);
                    break;
                case 'H':
                    headers(in, out);
                    break;
                case 'T':
                    throttles(in, out);
                    break;
                case 'E':
                    error(in, out);
                    break;
                default:
                    throw new IOException("no such question: " + question);
            }
            out.flush();
        }
    }

    private static void message(DataInputStream in, DataOutputStream out) throws IOException {
        String name = in.readUTF();
        short version = in.readShort();
        byte[] body = in.readNBytes(in.readInt());
        try {
            boolean inApi = name.endsWith("Request") || name.endsWith("Response");
            Class<?> type = Class.forName("org.apache.kafka.common.message." + name + (inApi ? "Data" : ""));
            Message message = (Message) type.getConstructor().newInstance();
            if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
                out.writeByte(2);
                return;
            }
            ByteBuffer source = ByteBuffer.wrap(body);
            message.read(new ByteBufferAccessor(source), version);
            if (source.hasRemaining()) {
                throw new IllegalStateException(source.remaining() + " bytes were not read");
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(written), cache, version);
            if (written.hasRemaining()) {
                throw new IllegalStateException(written.remaining() + " bytes were not written");
            }
            answer(out, 0, written.array());
        } catch (ReflectiveOperationException | RuntimeException error) {
            answer(out, 1, error.toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void headers(DataInputStream in, DataOutputStream out) throws IOException {
        ApiMessageType api = ApiMessageType.fromApiKey(in.readShort());
        short version = in.readShort();
        boolean known = version >= api.lowestSupportedVersion() && version <= api.highestSupportedVersion(true);
        out.writeShort(known ? api.requestHeaderVersion(version) : -1);
        out.writeShort(known ? api.responseHeaderVersion(version) : -1);
    }

    private static void throttles(DataInputStream in, DataOutputStream out) throws IOException {
        ApiKeys api = ApiKeys.forId(in.readShort());
        short version = in.readShort();
        ByteBuffer body = ByteBuffer.wrap(in.readNBytes(in.readInt()));
        // Releases differ in what they read from.
        for (Method method : AbstractResponse.class.getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (method.getName().equals("parseResponse") && types.length == 3 && types[0] == ApiKeys.class) {
                Object source = types[1] == ByteBuffer.class ? body : new ByteBufferAccessor(body);
                try {
                    AbstractResponse response = (AbstractResponse) method.invoke(null, api, source, version);
                    out.writeByte(response.shouldClientThrottle(version) ? 1 : 0);
                } catch (ReflectiveOperationException error) {
                    throw new IOException(error);
                }
                return;
            }
        }
        throw new IOException("no parseResponse");
    }

    private static void error(DataInputStream in, DataOutputStream out) throws IOException {
        short code = in.readShort();
        Errors error = Errors.forCode(code);
        boolean known = error.code() == code;
        out.writeUTF(known ? error.name() : "");
        out.writeByte(known && error.exception() instanceof RetriableException ? 1 : 0);
    }

    private static void answer(DataOutputStream out, int status, byte[] bytes) throws IOException {
        out.writeByte(status);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
