// A client of arcwise in one file of plain Java (17 or later), written from docs/reference/protocol.md alone.
//
//     java Client.java                            answer the lines of the conformance kit
//     java Client.java URL TASK.json VALUE...     report values to a server
//
// It shows how little a client in another language needs. This example keeps the account and the queue in memory; an
// app would keep them in a database, and write charge and code in one transaction.

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.text.Normalizer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSession;
import javax.net.ssl.SSLSessionContext;

public final class Client {
    /** A refused input: an invalid task, a value outside the domain, a certificate that does not hold. */
    @SuppressWarnings("serial")
    static final class Refused extends RuntimeException {
        Refused(String message) {
            super(message);
        }
    }

    static void check(boolean holds, String message) {
        if (!holds) throw new Refused(message);
    }

    static final BigInteger TWO_64 = BigInteger.ONE.shiftLeft(64);
    static final BigInteger TWO_192 = BigInteger.ONE.shiftLeft(192);
    static final BigInteger MILLION = BigInteger.valueOf(1_000_000);
    static final double NEAR = 0x1p-16;

    // ---- Bytes: msgpack as the protocol has it, one form for each item

    static byte[] encode(Object item) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        write(out, item);
        return out.toByteArray();
    }

    static void write(ByteArrayOutputStream out, Object item) {
        if (item == null) {
            out.write(0xc0);
        } else if (item instanceof Boolean bool) {
            out.write(bool ? 0xc3 : 0xc2);
        } else if (item instanceof Double real) {
            out.write(0xcb);
            out.writeBytes(ByteBuffer.allocate(8).putDouble(real).array());
        } else if (item instanceof BigInteger integer) {
            writeInteger(out, integer);
        } else if (item instanceof String text) {
            byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
            if (utf8.length < 32) out.write(0xa0 + utf8.length);
            else writeLength(out, utf8.length, 0xd9, 0xda, 0xdb);
            out.writeBytes(utf8);
        } else if (item instanceof byte[] bytes) {
            writeLength(out, bytes.length, 0xc4, 0xc5, 0xc6);
            out.writeBytes(bytes);
        } else if (item instanceof List<?> list) {
            if (list.size() < 16) out.write(0x90 + list.size());
            else writeLength(out, list.size(), -1, 0xdc, 0xdd);
            for (Object each : list) write(out, each);
        } else if (item instanceof Map<?, ?> map) {
            check(map.size() < 16, "a map has too many keys");
            out.write(0x80 + map.size());
            new TreeMap<>(map).forEach((key, value) -> {
                write(out, key);
                write(out, value);
            });
        } else {
            throw new Refused("cannot be encoded: " + item);
        }
    }

    static void writeInteger(ByteArrayOutputStream out, BigInteger integer) {
        check(integer.signum() >= 0 && integer.bitLength() <= 64, "an integer must be from 0 to 2^64 - 1");
        long bits = integer.longValue();
        if (integer.bitLength() <= 7) {
            out.write((int) bits);
            return;
        }
        int size = integer.bitLength() <= 8 ? 1 : integer.bitLength() <= 16 ? 2 : integer.bitLength() <= 32 ? 4 : 8;
        out.write(0xcc + Integer.numberOfTrailingZeros(size));
        writeBig(out, bits, size);
    }

    static void writeLength(ByteArrayOutputStream out, int length, int one, int two, int four) {
        int size = length < 256 && one >= 0 ? 1 : length < 65_536 ? 2 : 4;
        out.write(size == 1 ? one : size == 2 ? two : four);
        writeBig(out, length, size);
    }

    static void writeBig(ByteArrayOutputStream out, long bits, int size) {
        for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) out.write((int) (bits >>> shift) & 0xff);
    }

    /** Read one item. Encoding it again shows whether it had its only valid form. */
    static Object decode(byte[] data) {
        ByteBuffer in = ByteBuffer.wrap(data);
        try {
            Object item = read(in, 0);
            check(!in.hasRemaining(), "bytes follow the item");
            return item;
        } catch (java.nio.BufferUnderflowException end) {
            throw new Refused("the bytes end too early");
        }
    }

    static Object read(ByteBuffer in, int depth) {
        check(depth < 8, "arrays are nested too deeply");
        int head = in.get() & 0xff;
        if (head < 0x80) return BigInteger.valueOf(head);
        if (head < 0x90) return readMap(in, head - 0x80, depth);
        if (head < 0xa0) return readList(in, head - 0x90, depth);
        if (head < 0xc0) return readText(in, head - 0xa0);
        return switch (head) {
            case 0xc0 -> null;
            case 0xc2 -> false;
            case 0xc3 -> true;
            case 0xc4, 0xc5, 0xc6 -> readBytes(in, readLength(in, 1 << (head - 0xc4)));
            case 0xcb -> in.getDouble();
            case 0xcc, 0xcd, 0xce, 0xcf -> new BigInteger(1, readBytes(in, 1 << (head - 0xcc)));
            case 0xd9, 0xda, 0xdb -> readText(in, readLength(in, 1 << (head - 0xd9)));
            case 0xdc, 0xdd -> readList(in, readLength(in, 2 << (head - 0xdc)), depth);
            default -> throw new Refused("a task has no item that begins with " + Integer.toHexString(head));
        };
    }

    static int readLength(ByteBuffer in, int size) {
        BigInteger length = new BigInteger(1, readBytes(in, size));
        check(length.compareTo(BigInteger.valueOf(in.remaining())) <= 0, "the bytes end too early");
        return length.intValue();
    }

    static byte[] readBytes(ByteBuffer in, int length) {
        byte[] bytes = new byte[length];
        in.get(bytes);
        return bytes;
    }

    static String readText(ByteBuffer in, int length) {
        try { // a decoder reports invalid UTF-8, while new String replaces it
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(readBytes(in, length))).toString();
        } catch (CharacterCodingException error) {
            throw new Refused("a string is not UTF-8");
        }
    }

    static List<Object> readList(ByteBuffer in, int length, int depth) {
        List<Object> items = new ArrayList<>();
        for (int at = 0; at < length; at++) items.add(read(in, depth + 1));
        return items;
    }

    static Map<String, Object> readMap(ByteBuffer in, int length, int depth) {
        Map<String, Object> items = new LinkedHashMap<>();
        for (int at = 0; at < length; at++) {
            Object key = read(in, depth + 1);
            check(key instanceof String, "the keys of a map are strings");
            items.put((String) key, read(in, depth + 1));
        }
        return items;
    }

    static String sha256(byte[] data) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error); // every Java has it
        }
    }

    // ---- Epsilon: the certificate and the charge, in integers

    /** A float as the smaller of its exact value and the decimal that it prints as; see Certificate. */
    static final class Epsilon {
        final BigInteger p;
        final BigInteger q;

        Epsilon(double value) {
            BigDecimal exact = new BigDecimal(value);
            BigDecimal smaller = exact.min(shortest(value));
            BigInteger numerator = smaller.unscaledValue();
            p = smaller.scale() > 0 ? numerator : numerator.multiply(BigInteger.TEN.pow(-smaller.scale()));
            q = smaller.scale() > 0 ? BigInteger.TEN.pow(smaller.scale()) : BigInteger.ONE;
        }

        /** The shortest decimal that reads back. Before Java 19, Double.toString sometimes gives a longer one. */
        static BigDecimal shortest(double value) {
            BigDecimal exact = new BigDecimal(value);
            for (int digits = 1; digits < 17; digits++) {
                BigDecimal nearest = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
                if (nearest.doubleValue() == value) return nearest;
            }
            return exact.round(new MathContext(17, RoundingMode.HALF_EVEN));
        }

        /** E: at most 2^192 e^epsilon, and below that by less than 2^-50 of it. */
        BigInteger bound() {
            BigInteger sum = BigInteger.ZERO;
            BigInteger term = TWO_192;
            for (long k = 1; term.signum() > 0; k++) {
                sum = sum.add(term);
                term = term.multiply(p).divide(q.multiply(BigInteger.valueOf(k)));
            }
            return sum;
        }

        long micro() {
            return p.multiply(MILLION).add(q).subtract(BigInteger.ONE).divide(q).longValueExact();
        }
    }

    // ---- Kernels

    interface Kernel {
        int codes();

        int nodes();

        /** The width of a window; a position on the circle, or a clamped one, begins half of it before the value. */
        int window();

        /** Whether no code's largest weight is more than E / 2^192 times its smallest. */
        boolean keeps(BigInteger bound);

        BigInteger weight(int node, int code);

        int sample(int node, BigInteger u);
    }

    static boolean within(BigInteger high, BigInteger low, BigInteger bound) {
        return low.signum() > 0 && high.multiply(TWO_192).compareTo(low.multiply(bound)) <= 0;
    }

    record Window(int codes, int nodes, int window, BigInteger b, BigInteger g, BigInteger leftover) implements Kernel {
        static Window of(boolean circular, List<?> fields) {
            int codes = count(fields.get(0), "K", 2, 65_536);
            int nodes = count(fields.get(1), "N", 2, 65_536);
            int window = count(fields.get(2), "W", 1, codes - 1);
            BigInteger b = integer64(fields.get(3));
            BigInteger g = integer64(fields.get(4));
            check(nodes == (circular ? codes : codes - window + 1), "N does not fit K and W");
            check(b.signum() > 0 && g.signum() > 0, "b and g must be at least 1");
            BigInteger left = TWO_64.subtract(b.multiply(BigInteger.valueOf(codes)))
                .subtract(g.multiply(BigInteger.valueOf(window)));
            check(left.signum() >= 0 && left.compareTo(BigInteger.valueOf(codes)) < 0, "the rows do not have the sum 2^64");
            return new Window(codes, nodes, window, b, g, left);
        }

        public boolean keeps(BigInteger bound) {
            return within(b.add(g), b, bound);
        }

        public BigInteger weight(int node, int code) {
            boolean inside = Math.floorMod(code - node, codes) < window;
            BigInteger weight = inside ? b.add(g) : b;
            return BigInteger.valueOf(code).compareTo(leftover) < 0 ? weight.add(BigInteger.ONE) : weight;
        }

        public int sample(int node, BigInteger u) {
            BigInteger insideFrom = b.multiply(BigInteger.valueOf(codes));
            BigInteger leftoverFrom = insideFrom.add(g.multiply(BigInteger.valueOf(window)));
            if (u.compareTo(insideFrom) < 0) return u.divide(b).intValueExact();
            if (u.compareTo(leftoverFrom) >= 0) return u.subtract(leftoverFrom).intValueExact();
            return (node + u.subtract(insideFrom).divide(g).intValueExact()) % codes;
        }
    }

    /** Invert a row of a table, or the one row of a circulant: the code is the first whose running sum is above u. */
    static int inverse(BigInteger[] weights, BigInteger u) {
        BigInteger sum = BigInteger.ZERO;
        for (int code = 0; code < weights.length; code++) {
            sum = sum.add(weights[code]);
            if (sum.compareTo(u) > 0) return code;
        }
        throw new IllegalStateException("u is not below 2^64");
    }

    static BigInteger[] row(Object field, int codes) {
        List<?> items = list(field, "a row", codes);
        BigInteger[] weights = new BigInteger[codes];
        BigInteger sum = BigInteger.ZERO;
        for (int code = 0; code < codes; code++) sum = sum.add(weights[code] = integer64(items.get(code)));
        check(sum.equals(TWO_64), "a row does not have the sum 2^64");
        return weights;
    }

    record Table(int codes, int nodes, BigInteger[][] rows) implements Kernel {
        static Table of(List<?> fields) {
            int codes = count(fields.get(0), "K", 2, 65_536);
            int nodes = count(fields.get(1), "N", 2, Integer.MAX_VALUE);
            List<?> given = list(fields.get(2), "rows", nodes);
            for (Object unit : list(fields.get(3), "units", codes)) real(unit, "a unit");
            BigInteger[][] rows = given.stream().map(each -> row(each, codes)).toArray(BigInteger[][]::new);
            return new Table(codes, nodes, rows);
        }

        public int window() {
            return 0;
        }

        public boolean keeps(BigInteger bound) {
            for (int code = 0; code < codes; code++) {
                BigInteger low = rows[0][code];
                BigInteger high = low;
                for (BigInteger[] row : rows) {
                    low = low.min(row[code]);
                    high = high.max(row[code]);
                }
                if (!within(high, low, bound)) return false;
            }
            return true;
        }

        public BigInteger weight(int node, int code) {
            return rows[node][code];
        }

        public int sample(int node, BigInteger u) {
            return inverse(rows[node], u);
        }
    }

    record Circulant(int codes, BigInteger[] weights) implements Kernel {
        static Circulant of(List<?> fields) {
            int codes = count(fields.get(0), "K", 2, 65_536);
            BigInteger[] weights = row(fields.get(1), codes);
            check(Arrays.stream(weights).distinct().count() > 1, "all weights are equal");
            return new Circulant(codes, weights);
        }

        public int nodes() {
            return codes;
        }

        public int window() {
            return 0;
        }

        public boolean keeps(BigInteger bound) {
            List<BigInteger> all = Arrays.asList(weights);
            return within(java.util.Collections.max(all), java.util.Collections.min(all), bound);
        }

        public BigInteger weight(int node, int code) {
            return weights[Math.floorMod(code - node, codes)];
        }

        public int sample(int node, BigInteger u) {
            return (inverse(weights, u) + node) % codes;
        }
    }

    // ---- Checks of fields

    static List<?> list(Object field, String name, int length) {
        check(field instanceof List<?> items && items.size() == length, name + " must hold " + length + " items");
        return (List<?>) field;
    }

    static int count(Object field, String name, long least, long most) {
        return (int) whole(field, name, least, most);
    }

    static long whole(Object field, String name, long least, long most) {
        boolean holds = field instanceof BigInteger integer
            && integer.compareTo(BigInteger.valueOf(least)) >= 0 && integer.compareTo(BigInteger.valueOf(most)) <= 0;
        check(holds, name + " must be an integer from " + least + " to " + most);
        return ((BigInteger) field).longValue();
    }

    static BigInteger integer64(Object field) {
        boolean holds = field instanceof BigInteger integer && integer.signum() >= 0 && integer.bitLength() <= 64;
        check(holds, "a weight must be an integer from 0 to 2^64 - 1");
        return (BigInteger) field;
    }

    static double real(Object field, String name) {
        check(field instanceof Double real && Double.isFinite(real), name + " must be a finite float");
        return (Double) field;
    }

    static double bound(Object field, String name) {
        double value = real(field, name);
        check(Double.doubleToRawLongBits(value) != Double.doubleToRawLongBits(-0.0), name + " must not be minus 0");
        return value;
    }

    static String text(Object field, String name, int most) {
        check(field instanceof String, name + " must be a string");
        String text = (String) field;
        check(Normalizer.isNormalized(text, Normalizer.Form.NFC), name + " must be in NFC");
        int length = text.codePointCount(0, text.length());
        check(length >= 1 && length <= most, name + " must have 1 to " + most + " code points");
        check(!text.startsWith(" ") && !text.endsWith(" "), name + " must not have a space at either end");
        check(text.codePoints().allMatch(Client::isPrintable), name + " must be printable");
        return text;
    }

    static boolean isPrintable(int point) {
        return switch (Character.getType(point)) {
            case Character.CONTROL, Character.FORMAT, Character.SURROGATE, Character.PRIVATE_USE,
                Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR -> false;
            case Character.SPACE_SEPARATOR -> point == ' ';
            default -> true;
        };
    }

    // ---- Domains

    /** An interval, or a circle, where `low` is 0 and `length` the period. */
    record Domain(boolean circular, double low, double high, boolean clip, double step, String rounding, long size) {
        static Domain of(Object field) {
            check(field instanceof List<?> items && !items.isEmpty(), "the domain must be an array");
            List<?> fields = (List<?>) field;
            boolean circular = "circle".equals(fields.get(0));
            check(circular || "interval".equals(fields.get(0)), "the domain must be an interval or a circle");
            int plain = circular ? 2 : 4;
            check(fields.size() == plain || fields.size() == plain + 2, "the domain has another number of fields");
            double low = circular ? 0.0 : bound(fields.get(1), "low");
            double high = bound(fields.get(circular ? 1 : 2), circular ? "the period" : "high");
            check(low < high && Double.isFinite(high - low), "low must be below high, at a finite difference");
            check(circular || fields.get(3) instanceof Boolean, "clip must be true or false");
            boolean clip = !circular && (Boolean) fields.get(3);
            if (fields.size() == plain) return new Domain(circular, low, high, clip, 0, null, 0);
            double step = bound(fields.get(plain), "the step");
            check(step > 0 && step >= 0x1p-32 * (circular ? high : Math.max(-low, high)), "the step is too small");
            check(fields.get(plain + 1) instanceof String word && List.of("refuse", "nearest", "stochastic").contains(word),
                "rounding is not known");
            double n = (high - low) / step;
            double m = Math.floor(n + 0.5);
            check(Math.abs(n - m) <= NEAR, "the step must divide the domain");
            double size = circular ? m : m + 1;
            check(size >= 2, "a lattice has at least two values");
            return new Domain(circular, low, high, clip, step, (String) fields.get(plain + 1), (long) size);
        }

        boolean isLattice() {
            return rounding != null;
        }

        /** Whether each value of the lattice has its own node. */
        boolean isNumbered() {
            return isLattice() && size <= 1024;
        }

        double wrapped(double value) {
            double rest = value % high; // Java's % is C's fmod
            return rest < 0 ? rest + high : rest;
        }

        /** x: from 0 to 1. */
        double unit(double value) {
            check(Double.isFinite(value), "a value must be finite");
            if (isLattice()) {
                double x = place(value) / (circular ? size : size - 1);
                return circular && x >= 1 ? 0 : x;
            }
            if (circular) {
                double x = wrapped(value) / high;
                return x < 1 ? x : 0;
            }
            check(clip || (value >= low && value <= high), "the value is outside the domain");
            return (Math.min(Math.max(value, low), high) - low) / (high - low);
        }

        /** t: the number of a value of the lattice. */
        double place(double value) {
            check(Double.isFinite(value), "a value must be finite");
            double q;
            if (circular) {
                q = wrapped(value) / step;
            } else {
                double m = size - 1;
                q = (value - low) / step;
                check(clip || (q >= -NEAR && q <= m + NEAR), "the value is outside the domain");
                if (q < -NEAR) q = 0;
                if (q > m + NEAR) q = m;
            }
            double k = Math.floor(q + 0.5);
            if (Math.abs(q - k) <= NEAR || rounding.equals("nearest")) return circular && k == size ? 0 : k;
            check(!rounding.equals("refuse"), "the value is between two steps");
            return q;
        }
    }

    // ---- Tasks

    record Caps(Long lifetime, Long rolling, long window) {
        static Caps of(Object field, long charge) {
            List<?> fields = list(field, "caps", 3);
            Long[] caps = new Long[2];
            for (int at = 0; at < 2; at++) {
                Object cap = fields.get(at);
                if (cap != null) caps[at] = whole(cap, "a cap in micro-epsilon", charge, 1_000_000_000_000_000L);
            }
            return new Caps(caps[0], caps[1], whole(fields.get(2), "the window", 1, 31_622_400));
        }
    }

    static final Set<String> CENTRAL = Set.of("delta", "epsilon", "honest", "releases", "reports", "reports_each");

    record Task(byte[] bytes, String id, String name, Domain domain, double epsilon, long epochSeconds, long charge,
                Caps caps, String placement, Kernel kernel, boolean isCentral) {

        static Task ofBytes(byte[] bytes) {
            check(bytes.length <= 1 << 20, "a task has at most 1 MiB");
            Object item = decode(bytes);
            check(Arrays.equals(encode(item), bytes), "these are not canonical bytes");
            check(item instanceof List<?> items && (items.size() == 8 || items.size() == 9), "a task has 8 or 9 items");
            List<?> fields = (List<?>) item;
            check(BigInteger.ONE.equals(fields.get(0)), "the schema version is not known");
            Domain domain = Domain.of(fields.get(2));
            double epsilon = real(fields.get(3), "epsilon");
            check(epsilon >= 0.01 && epsilon <= 20, "epsilon must be from 0.01 to 20");
            List<String> goals = domain.circular
                ? List.of("direction", "distribution") : List.of("distribution", "mean", "value");
            check(fields.get(4) instanceof String goal && goals.contains(goal), "the goal does not fit the domain");
            Map<?, ?> optional = fields.size() == 9 ? checkedOptional(fields.get(8)) : Map.of();
            Epsilon exact = new Epsilon(epsilon);
            List<?> mechanism = list(fields.get(7), "the mechanism", 3);
            check(mechanism.get(0) instanceof String && BigInteger.ONE.equals(mechanism.get(1)),
                "the mechanism is not known");
            check(mechanism.get(2) instanceof List<?> parts && parts.size() >= 2, "the kernel must be an array");
            List<?> kernelFields = (List<?>) mechanism.get(2);
            Kernel kernel = kernel(kernelFields, domain);
            check(kernel.keeps(exact.bound()), "the certificate does not hold");
            String placement = (String) kernelFields.get(1);
            int numbered = placement.equals("clamp") ? kernel.codes() : kernel.nodes();
            check(!domain.isNumbered() || domain.size == numbered, "the kernel does not fit the lattice");
            long epochSeconds = whole(fields.get(5), "epoch_seconds", 1, 31_622_400);
            Caps caps = Caps.of(fields.get(6), exact.micro());
            if (optional.containsKey("central")) {
                checkCentral((Map<?, ?>) optional.get("central"), caps, exact.micro(), epochSeconds);
            }
            return new Task(bytes.clone(), sha256(bytes), text(fields.get(1), "the name", 64), domain, epsilon,
                epochSeconds, exact.micro(), caps, placement, kernel, optional.containsKey("central"));
        }

        static Map<?, ?> checkedOptional(Object field) {
            check(field instanceof Map<?, ?> keys && !keys.isEmpty(), "the optional keys must be a map that is not empty");
            ((Map<?, ?>) field).forEach((key, content) -> {
                switch (String.valueOf(key)) {
                    case "central" -> check(content instanceof Map<?, ?> map && map.keySet().equals(CENTRAL),
                        "the central statement must have its six keys");
                    case "description" -> text(content, "the description", 200);
                    case "lateness_seconds" -> whole(content, "lateness_seconds", 0, 31_622_400);
                    case "release" -> check("closed-epochs".equals(content), "the release is not known");
                    case "unit" -> text(content, "the unit", 20);
                    default -> throw new Refused("there is a key that this client does not know");
                }
            });
            return (Map<?, ?>) field;
        }

        /** Check the promise to readers who see only released counts, and the caps that keep it. */
        static void checkCentral(Map<?, ?> central, Caps caps, long micro, long epochSeconds) {
            double delta = real(central.get("delta"), "the central delta");
            double honest = real(central.get("honest"), "the honest share");
            check(real(central.get("epsilon"), "the central epsilon") > 0, "the central epsilon must be above 0");
            check(delta >= 1e-200 && delta < 1, "the central delta must be from 1e-200 to below 1");
            check(honest > 0 && honest <= 1, "the honest share must be above 0 and at most 1");
            long reports = whole(central.get("reports"), "reports", 1, 1_000_000_000_000L);
            long each = whole(central.get("reports_each"), "reports_each", 1, reports);
            long releases = whole(central.get("releases"), "releases", 1, 1_000_000);
            check(caps.lifetime() != null && charges(caps.lifetime(), micro) <= releases,
                "the lifetime cap must allow at most as many reports as there are releases");
            check(caps.rolling() != null && charges(caps.rolling(), micro) <= each && caps.window() >= epochSeconds,
                "the rolling cap must allow at most reports_each reports, for a whole epoch");
        }

        /** The number of charges in a cap, rounded up; their product might overflow a long. */
        static long charges(long cap, long micro) {
            return (cap + micro - 1) / micro;
        }

        static Kernel kernel(List<?> fields, Domain domain) {
            List<?> rest = fields.subList(2, fields.size());
            boolean circular = domain.circular;
            Object placement = fields.get(1);
            check("wrap".equals(placement) == circular, "circles, and only circles, wrap");
            if ("window".equals(fields.get(0))) {
                check(circular || "inset".equals(placement) || "clamp".equals(placement), "the placement is not known");
                return Window.of(circular, list(rest, "a window", 5));
            }
            if ("table".equals(fields.get(0))) {
                check("inset".equals(placement), "a table is inset");
                return Table.of(list(rest, "a table", 4));
            }
            check("circulant".equals(fields.get(0)) && circular, "the kernel is not known");
            return Circulant.of(list(rest, "a circulant", 2));
        }

        /** Read the parsed file of a task: encode its content and compare the id. */
        static Task ofFile(Map<?, ?> file) {
            Map<?, ?> domain = Json.object(file, "domain");
            Map<?, ?> caps = Json.object(file, "caps");
            Map<?, ?> mechanism = Json.object(file, "mechanism");
            Map<?, ?> kernel = Json.object(mechanism, "kernel");
            List<Object> where = new ArrayList<>(Arrays.asList(domain.get("kind")));
            for (String key : "circle".equals(domain.get("kind")) ? List.of("period") : List.of("low", "high")) {
                where.add(Json.real(domain.get(key)));
            }
            if (!"circle".equals(domain.get("kind"))) where.add(domain.get("clip"));
            if (domain.containsKey("step") || domain.containsKey("rounding")) {
                where.add(Json.real(domain.get("step")));
                where.add(domain.get("rounding"));
            }
            List<Object> parts = new ArrayList<>(Arrays.asList(kernel.get("kind"), kernel.get("placement"), kernel.get("codes")));
            switch (String.valueOf(kernel.get("kind"))) {
                case "window" -> parts.addAll(Arrays.asList(kernel.get("nodes"), kernel.get("window"),
                    decimal(kernel.get("background")), decimal(kernel.get("extra"))));
                case "table" -> parts.addAll(Arrays.asList(kernel.get("nodes"),
                    Json.list(kernel.get("rows")).stream().map(Task::decimals).toList(),
                    Json.list(kernel.get("units")).stream().map(Json::real).toList()));
                case "circulant" -> parts.add(decimals(kernel.get("weights")));
                default -> throw new Refused("the kernel is not known");
            }
            List<Object> fields = new ArrayList<>(Arrays.asList(
                file.get("arcwise_task"), file.get("name"), where, Json.real(file.get("epsilon")), file.get("goal"),
                file.get("period_seconds"),
                Arrays.asList(caps.get("lifetime_micro_epsilon"), caps.get("rolling_micro_epsilon"),
                    caps.get("rolling_window_seconds")),
                Arrays.asList(mechanism.get("name"), mechanism.get("version"), parts)));
            Map<String, Object> optional = new TreeMap<>();
            for (String key : List.of("description", "lateness_seconds", "release", "unit")) {
                if (file.containsKey(key)) optional.put(key, file.get(key));
            }
            if (file.containsKey("central")) {
                Map<String, Object> central = new TreeMap<>();
                Json.object(file, "central").forEach((key, value) -> central.put(String.valueOf(key),
                    List.of("delta", "epsilon", "honest").contains(key) ? Json.real(value) : value));
                optional.put("central", central);
            }
            if (!optional.isEmpty()) fields.add(optional);
            Task task = ofBytes(encode(fields));
            check(task.id.equals(file.get("id")), "the id is not that of this task");
            return task;
        }

        static Object decimal(Object digits) {
            check(digits instanceof String text && text.matches("[0-9]{1,20}"), "a weight must be decimal digits");
            return integer64(new BigInteger((String) digits));
        }

        static List<Object> decimals(Object row) {
            check(row instanceof String, "a row must be one string");
            return Arrays.stream(((String) row).split(" ", -1)).map(Task::decimal).toList();
        }

        long epoch(double unixTime) {
            return (long) Math.floor(unixTime / epochSeconds);
        }

        /** The node of a value as a real number, which r rounds later. */
        double position(double value) {
            int codes = kernel.codes();
            int window = kernel.window();
            double t;
            if (domain.isNumbered()) {
                double place = domain.place(value);
                t = placement.equals("inset") ? place : place - Math.floor(window / 2);
            } else {
                double x = domain.unit(value);
                t = placement.equals("inset") ? (kernel.nodes() - 1) * x : codes * x - window / 2.0;
            }
            if (placement.equals("clamp")) return Math.min(Math.max(t, 0), kernel.nodes() - 1);
            if (placement.equals("inset")) return t;
            t = t % codes;
            if (t < 0) t += codes;
            return t < codes ? t : 0;
        }

        int node(double value, long r) {
            double t = position(value);
            double below = Math.floor(t);
            int node = (int) below + ((r >>> 11) * 0x1p-53 < t - below ? 1 : 0);
            return domain.circular ? node % kernel.nodes() : node;
        }

        int randomize(double value, long r, long u) {
            return kernel.sample(node(value, r), new BigInteger(Long.toUnsignedString(u)));
        }
    }

    // ---- Charges

    /** The spending of reports, by task. */
    static final class Ledger {
        private static final class Account {
            long spent;
            final List<Double> times = new ArrayList<>();
        }

        private final Map<String, Account> accounts = new HashMap<>();
        private double now;

        /** Charge one report of a task; false, at no cost, if a cap forbids it. */
        boolean charge(Task task, double time) {
            now = Math.max(now, time);
            Account account = accounts.computeIfAbsent(task.id, id -> new Account());
            account.times.removeIf(charged -> now - charged >= task.caps.window);
            if (task.caps.lifetime != null && account.spent + task.charge > task.caps.lifetime) return false;
            if (task.caps.rolling != null && (account.times.size() + 1) * task.charge > task.caps.rolling) return false;
            account.spent += task.charge;
            account.times.add(now);
            return true;
        }

        long spent(Task task) {
            return accounts.getOrDefault(task.id, new Account()).spent;
        }
    }

    // ---- Batches and answers

    static byte[] batch(Task task, byte[] batchId, long epoch, int[] codes) {
        boolean wide = task.kernel.codes() > 256;
        ByteBuffer packed = ByteBuffer.allocate(codes.length * (wide ? 2 : 1)).order(ByteOrder.LITTLE_ENDIAN);
        for (int code : codes) {
            if (wide) packed.putShort((short) code);
            else packed.put((byte) code);
        }
        byte[] taskId = HexFormat.of().parseHex(task.id);
        return encode(List.of(BigInteger.ONE, taskId, batchId, BigInteger.valueOf(epoch), packed.array()));
    }

    enum Action { SENT, RETRY, PAUSE, KEEP, DROP }

    /** The action that an answer requires; status 0 means that there was no answer. */
    static Action action(int status) {
        return switch (status) {
            case 204 -> Action.SENT;
            case 401, 403 -> Action.PAUSE;
            case 404 -> Action.KEEP;
            case 407, 408, 421, 425, 429 -> Action.RETRY;
            case 501 -> Action.DROP;
            default -> status >= 400 && status < 500 ? Action.DROP : Action.RETRY;
        };
    }

    static final double DAY = 86_400;

    /** The server's wait in seconds, from 0 to a day; 0 without a header of seconds. A date would reveal our clock. */
    static double retryAfter(String header) {
        String text = header == null ? "" : header.strip();
        return text.matches("[0-9]+") ? new BigDecimal(text).min(BigDecimal.valueOf(DAY)).doubleValue() : 0;
    }

    /** The seconds to wait then: a minute, an hour or a day, times 1 + U, so that no number identifies a device. */
    static double asked(double named, double uniform) {
        return named == 0 ? 0 : (named <= 60 ? 60 : named <= 3600 ? 3600 : DAY) * (1 + uniform);
    }

    static double backoff(int failures, double uniform) {
        return Math.min(3600, Math.pow(2, failures - 1)) * uniform;
    }

    /** When the queue may be sent, given the answers so far. Times are seconds of any one clock. */
    static final class Schedule {
        private static final class Wait {
            int failures;
            double until = Double.NEGATIVE_INFINITY;
        }

        private Wait all = new Wait();
        private final Map<String, Wait> tasks = new HashMap<>();
        // For all tasks: waits of single tasks would together be a number by which the server recognises the device.
        private double asked = Double.NEGATIVE_INFINITY;

        double readyAt(String task) {
            return Math.max(asked, Math.max(all.until, tasks.getOrDefault(task, all).until));
        }

        void record(Action action, String task, double now, double retryAfter, double uniform) {
            asked = Math.max(asked, now + asked(retryAfter, uniform));
            switch (action) {
                case RETRY -> all.until = now + backoff(++all.failures, uniform);
                case PAUSE -> {
                    all.failures++;
                    all.until = now + 1800 * (1 + uniform);
                }
                case KEEP -> {
                    all = new Wait();
                    Wait wait = tasks.computeIfAbsent(task, id -> new Wait());
                    wait.until = now + backoff(++wait.failures, uniform);
                }
                case SENT, DROP -> {
                    all = new Wait();
                    tasks.remove(task);
                }
            }
        }

        /** End the client's own waits, when an app asks to send immediately. */
        void hurry() {
            all = new Wait();
            tasks.clear();
        }
    }

    // ---- The client: one task, one server

    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int MOST_CODES = 500_000; // in a batch, whose bytes are at most 1 MiB

    private record Queued(long epoch, int code) {}

    /** A batch whose bytes are fixed: every attempt sends the same. */
    private record Sealed(byte[] body, int count) {}

    private final URI server;
    private final String key;
    private final Task task;
    private final Ledger ledger = new Ledger();
    private final Schedule schedule = new Schedule();
    private final List<Queued> queue = new ArrayList<>();
    private final Queue<Sealed> sealed = new ArrayDeque<>();
    private final SSLContext tls = newContext();
    private final HttpClient http;

    /** With `unlimited`, the task may lack caps: a device may then reveal more with each report. */
    Client(String server, String key, Task task, boolean unlimited) {
        this.server = URI.create(server.replaceAll("/+$", "") + "/v1/tasks/" + task.id + "/reports");
        this.key = key;
        this.task = task;
        check(unlimited || task.caps.lifetime != null || task.caps.rolling != null,
            "nothing limits what the task reveals: give it a lifetime cap or a rolling cap");
        check("https".equals(this.server.getScheme()) || isHere(this.server.getHost()),
            "http:// shows key and reports to the network: use https://, or a server on this machine");
        http = HttpClient.newBuilder().sslContext(tls)
            .version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER).build();
    }

    private static boolean isHere(String host) {
        return host != null && (host.equals("localhost") || host.equals("[::1]") || host.matches("127(\\.\\d+){3}"));
    }

    private static SSLContext newContext() {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, null, null);
            return context;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Forget TLS sessions: a resumed session shows the server that two connections come from one device. */
    private void forgetSessions() {
        SSLSessionContext sessions = tls.getClientSessionContext();
        for (byte[] id : Collections.list(sessions.getIds())) {
            SSLSession session = sessions.getSession(id);
            if (session != null) session.invalidate();
        }
    }

    /** Charge, randomise and queue one value; false if a cap forbids it. Refused values are not charged. */
    boolean report(double value) {
        double now = System.currentTimeMillis() / 1000.0;
        task.position(value);
        if (!ledger.charge(task, now)) return false;
        ByteBuffer draw = ByteBuffer.wrap(random(16)).order(ByteOrder.LITTLE_ENDIAN);
        // The rolling cap bounds the reports in an epoch of the ledger's time, which never goes back.
        long epoch = task.epoch(task.isCentral ? ledger.now : now);
        queue.add(new Queued(epoch, task.randomize(value, draw.getLong(), draw.getLong())));
        return true;
    }

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        RANDOM.nextBytes(bytes); // from the operating system: NativePRNG on Unix
        return bytes;
    }

    /** Send the queue for this many seconds, one batch per epoch; return the numbers of sent and dropped reports. */
    private final Map<String, Integer> counts = new TreeMap<>(Map.of("sent", 0, "dropped", 0));

    Map<String, Integer> flush(double seconds) throws InterruptedException {
        TreeMap<Long, List<Integer>> byEpoch = new TreeMap<>();
        for (Queued each : queue) byEpoch.computeIfAbsent(each.epoch, epoch -> new ArrayList<>()).add(each.code);
        queue.clear();
        byEpoch.forEach((epoch, codes) -> {
            for (int from = 0; from < codes.size(); from += MOST_CODES) {
                List<Integer> some = codes.subList(from, Math.min(from + MOST_CODES, codes.size()));
                int[] sorted = some.stream().mapToInt(Integer::intValue).sorted().toArray();
                sealed.add(new Sealed(batch(task, random(16), epoch, sorted), sorted.length));
            }
        });
        double end = seconds() + seconds;
        schedule.hurry();
        while (!sealed.isEmpty() && schedule.readyAt(task.id) < end) {
            Thread.sleep((long) Math.ceil(1000 * Math.max(0, schedule.readyAt(task.id) - seconds())));
            Sealed first = sealed.element();
            Action action = post(first.body);
            sealed.remove(); // not earlier: an interrupted attempt leaves it in the queue
            if (action == Action.SENT) counts.merge("sent", first.count, Integer::sum);
            else if (action == Action.DROP) counts.merge("dropped", first.count, Integer::sum);
            else sealed.add(first); // behind the others
        }
        counts.put("pending", sealed.stream().mapToInt(Sealed::count).sum());
        return counts;
    }

    private Action post(byte[] body) throws InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(server).timeout(Duration.ofSeconds(10))
            .header("Content-Type", "application/vnd.arcwise.batch+msgpack")
            .header("User-Agent", "arcwise-java-example/0.1.0")
            .POST(HttpRequest.BodyPublishers.ofByteArray(body));
        if (key != null) request.header("Authorization", "Bearer " + key);
        int status = 0;
        double asked = 0;
        forgetSessions();
        try {
            // The timeout covers the head. The body is not read, however long it is.
            HttpResponse<InputStream> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
            answer.body().close();
            status = answer.statusCode();
            asked = retryAfter(answer.headers().firstValue("Retry-After").orElse(null));
        } catch (IOException error) {
            // no answer: status 0
        }
        schedule.record(action(status), task.id, seconds(), asked, RANDOM.nextDouble());
        return action(status);
    }

    /** Seconds of a monotonic clock. */
    private static double seconds() {
        return System.nanoTime() / 1e9;
    }

    // ---- JSON, which Java does not include

    static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        static Object parse(String text) {
            Json json = new Json(text);
            Object value = json.value();
            check(json.peek() == 0, "text follows the JSON value");
            return value;
        }

        static Map<?, ?> object(Map<?, ?> from, String key) {
            check(from.get(key) instanceof Map, key + " must be an object");
            return (Map<?, ?>) from.get(key);
        }

        static List<?> list(Object value) {
            check(value instanceof List, "there must be a list");
            return (List<?>) value;
        }

        /** A number as a float: JSON has one kind of number, and 360 may mean 360.0. */
        static Object real(Object value) {
            return value instanceof BigInteger integer ? (Object) integer.doubleValue() : value;
        }

        private char peek() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean take(char expected) {
            if (peek() != expected) return false;
            at++;
            return true;
        }

        private void need(char expected) {
            check(take(expected), "there must be " + expected + " at " + at);
        }

        private Object value() {
            char first = peek();
            if (first == '{') {
                Map<String, Object> items = new LinkedHashMap<>();
                for (need('{'); !take('}'); check(peek() == '}' || take(','), "an object does not end")) {
                    String key = string();
                    need(':');
                    items.put(key, value());
                }
                return items;
            }
            if (first == '[') {
                List<Object> items = new ArrayList<>();
                for (need('['); !take(']'); check(peek() == ']' || take(','), "a list does not end")) items.add(value());
                return items;
            }
            if (first == '"') return string();
            for (String word : List.of("true", "false", "null")) {
                if (text.startsWith(word, at)) {
                    at += word.length();
                    return word.equals("null") ? null : (Object) word.equals("true");
                }
            }
            int from = at;
            while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) at++;
            String number = text.substring(from, at);
            check(!number.isEmpty(), "there must be a value at " + at);
            return number.matches("-?[0-9]+") ? (Object) new BigInteger(number) : (Object) Double.valueOf(number);
        }

        private String string() {
            need('"');
            StringBuilder found = new StringBuilder();
            while (text.charAt(at) != '"') {
                char next = text.charAt(at++);
                if (next != '\\') {
                    found.append(next);
                    continue;
                }
                char escaped = text.charAt(at++);
                if (escaped == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    int known = "bfnrt".indexOf(escaped);
                    found.append(known < 0 ? escaped : "\b\f\n\r\t".charAt(known));
                }
            }
            at++;
            return found.toString();
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> map) {
                List<String> items = new ArrayList<>();
                map.forEach((key, item) -> items.add(write(key) + ":" + write(item)));
                return "{" + String.join(",", items) + "}";
            }
            if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(Json::write).toList()) + "]";
            if (!(value instanceof String)) return String.valueOf(value);
            StringBuilder quoted = new StringBuilder("\"");
            for (char each : ((String) value).toCharArray()) {
                if (each == '"' || each == '\\') quoted.append('\\').append(each);
                else if (each < ' ' || each > '~') quoted.append(String.format("\\u%04x", (int) each));
                else quoted.append(each);
            }
            return quoted.append('"').toString();
        }
    }

    // ---- The conformance kit: a line in, a line out; see docs/reference/conformance.md

    private static final Map<String, Task> TASKS = new HashMap<>();

    private static Task taskOf(Map<?, ?> line) {
        return TASKS.computeIfAbsent((String) line.get("task"), hex -> Task.ofBytes(HexFormat.of().parseHex(hex)));
    }

    private static long unsigned(Object digits) {
        return Long.parseUnsignedLong((String) digits);
    }

    private static double number(Object value) {
        return ((Number) value).doubleValue();
    }

    private static int[] ints(Object values) {
        return ((List<?>) values).stream().mapToInt(value -> ((Number) value).intValue()).toArray();
    }

    private static Object answer(Map<?, ?> line) throws InterruptedException {
        switch ((String) line.get("kind")) {
            case "task" -> {
                Task task = line.containsKey("bytes")
                    ? Task.ofBytes(HexFormat.of().parseHex((String) line.get("bytes"))) : Task.ofFile(Json.object(line, "json"));
                return Map.of("id", task.id, "bytes", HexFormat.of().formatHex(task.bytes));
            }
            case "row" -> {
                Kernel kernel = taskOf(line).kernel;
                int node = ((Number) line.get("node")).intValue();
                List<String> weights = new ArrayList<>();
                for (int code = 0; code < kernel.codes(); code++) weights.add(kernel.weight(node, code).toString());
                return Map.of("weights", weights);
            }
            case "rows" -> {
                Kernel kernel = taskOf(line).kernel;
                StringBuilder rows = new StringBuilder();
                for (int node = 0; node < kernel.nodes(); node++) {
                    for (int code = 0; code < kernel.codes(); code++) {
                        rows.append(code == 0 ? "" : ",").append(kernel.weight(node, code));
                    }
                    rows.append('\n');
                }
                return Map.of("sha256", sha256(rows.toString().getBytes(StandardCharsets.US_ASCII)));
            }
            case "draw" -> {
                Task task = taskOf(line);
                double value = line.get("value") == null ? Double.NaN : number(line.get("value"));
                long r = unsigned(line.get("r"));
                return Map.of("node", task.node(value, r), "code", task.randomize(value, r, unsigned(line.get("u"))));
            }
            case "epsilon" -> {
                Epsilon epsilon = new Epsilon(number(line.get("epsilon")));
                return Map.of("micro_epsilon", epsilon.micro(), "bound", epsilon.bound().toString());
            }
            case "ledger" -> {
                Task task = taskOf(line);
                Ledger ledger = new Ledger();
                List<Boolean> granted = new ArrayList<>();
                for (Object time : (List<?>) line.get("times")) granted.add(ledger.charge(task, number(time)));
                return Map.of("granted", granted, "spent", ledger.spent(task));
            }
            case "epoch" -> {
                return Map.of("epoch", taskOf(line).epoch(number(line.get("time"))));
            }
            case "batch" -> {
                int[] codes = ints(line.get("codes"));
                int[] all = new int[codes.length * ((Number) line.get("times")).intValue()];
                for (int at = 0; at < all.length; at++) all[at] = codes[at % codes.length];
                byte[] id = HexFormat.of().parseHex((String) line.get("batch_id"));
                byte[] body = batch(taskOf(line), id, ((Number) line.get("epoch")).longValue(), all);
                return Map.of("body", HexFormat.of().formatHex(body));
            }
            case "answer" -> {
                return Map.of("action", action(((Number) line.get("status")).intValue()).name().toLowerCase(Locale.ROOT));
            }
            case "retry-after" -> {
                return Map.of("seconds", retryAfter((String) line.get("text")));
            }
            case "wait" -> {
                return Map.of("seconds", backoff(((Number) line.get("failures")).intValue(), number(line.get("uniform"))));
            }
            case "schedule" -> {
                return Map.of("sends", simulate(line));
            }
            case "deliver" -> {
                Client client = new Client((String) line.get("url"), (String) line.get("key"), taskOf(line), true);
                Map<String, Integer> counts = Map.of();
                for (String when : List.of("values", "later")) {
                    List<?> values = (List<?>) line.get(when);
                    for (Object value : values) {
                        try {
                            client.report(number(value));
                        } catch (Refused outside) {
                            // refused values are not charged
                        }
                    }
                    if (!values.isEmpty()) counts = client.flush(number(line.get("seconds")));
                }
                return counts;
            }
            default -> {
                return null;
            }
        }
    }

    private record Waiting(int number, String task) {}

    /** Return which batch of a queue is sent when, with these answers. */
    private static List<List<Object>> simulate(Map<?, ?> line) {
        Schedule schedule = new Schedule();
        List<Waiting> queue = new ArrayList<>();
        for (Object task : (List<?>) line.get("batches")) queue.add(new Waiting(queue.size(), (String) task));
        Queue<Object> flushes = new ArrayDeque<>((List<?>) line.get("flushes"));
        List<List<Object>> sends = new ArrayList<>();
        double now = 0;
        for (Object each : (List<?>) line.get("answers")) {
            if (queue.isEmpty()) break;
            double ready = earliest(schedule, queue);
            while (!flushes.isEmpty() && number(flushes.peek()) < ready) {
                now = number(flushes.remove());
                schedule.hurry();
                ready = earliest(schedule, queue);
            }
            now = Math.max(now, ready);
            final double time = now;
            Waiting first = queue.stream().filter(batch -> schedule.readyAt(batch.task) <= time).findFirst().orElseThrow();
            sends.add(List.of(now, first.number));
            queue.remove(first);
            Map<?, ?> answer = (Map<?, ?>) each;
            Action action = action(((Number) answer.get("status")).intValue());
            double asked = retryAfter((String) answer.get("retry_after"));
            schedule.record(action, first.task, now, asked, number(answer.get("uniform")));
            if (action != Action.SENT && action != Action.DROP) queue.add(first);
        }
        return sends;
    }

    private static double earliest(Schedule schedule, List<Waiting> queue) {
        return queue.stream().mapToDouble(batch -> schedule.readyAt(batch.task)).min().orElseThrow();
    }

    private static String respond(String line) {
        String kind = "result";
        Object content;
        try {
            content = answer((Map<?, ?>) Json.parse(line));
            if (content == null) {
                kind = "skip";
                content = "this example does not have it";
            }
        } catch (Refused refused) {
            kind = "refused";
            content = refused.getMessage();
        } catch (RuntimeException | InterruptedException error) {
            kind = "error";
            content = error.toString();
        }
        return Json.write(Map.of(kind, content));
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            PrintStream out = new PrintStream(System.out, true, StandardCharsets.US_ASCII);
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) out.println(respond(line));
            return;
        }
        Task task = Task.ofFile((Map<?, ?>) Json.parse(Files.readString(Path.of(arguments[1]))));
        Client client = new Client(arguments[0], null, task, false);
        for (int at = 2; at < arguments.length; at++) {
            System.out.println(client.report(Double.parseDouble(arguments[at])) ? "queued" : "not made: a cap is spent");
        }
        System.out.println(client.flush(10));
    }
}
