import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** The loads by Flink's DataStream API. */
final class DataStreamPeer {
    private DataStreamPeer() {}

    static void run(StreamExecutionEnvironment env, Map<String, String> task) throws Exception {
        String load = task.get("load");
        DataStream<Long> numbers =
                Rows.numbers(env, Long.parseLong(task.get("rows")), Integer.parseInt(task.get("slots")));
        long keys = Long.parseLong(task.get("keys"));
        DataStream<String> answers;
        if (load.equals("session")) {
            answers = lines(sessions(numbers, keys, task), task);
        } else {
            KeyedProcessFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>> function =
                    load.equals("large") ? new PaddedSum() : new Sum();
            answers = lines(
                    numbers.map(i -> Tuple2.of(Rows.key(load, keys, i), i % 100 + 1))
                            .returns(Types.TUPLE(Types.LONG, Types.LONG))
                            .keyBy(row -> row.f0, Types.LONG)
                            .process(function)
                            .returns(Types.TUPLE(Types.LONG, Types.LONG)),
                    task);
        }
        if (answers != null) {
            answers.sinkTo(FileSink.forRowFormat(new Path(task.get("answers")), new SimpleStringEncoder<String>())
                    .build());
        }
        env.execute("peer");
    }

    /** Text lines of the answers; null where they are dropped. */
    private static <T extends org.apache.flink.api.java.tuple.Tuple> DataStream<String> lines(
            DataStream<T> answers, Map<String, String> task) {
        if (!task.containsKey("answers")) {
            answers.sinkTo(new DiscardingSink<>());
            return null;
        }
        return answers.map(row -> row.toString().replaceAll("[()]", "")).returns(Types.STRING);
    }

    static final class Sum extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private transient ValueState<Long> total;

        @Override
        public void open(OpenContext context) {
            total = getRuntimeContext().getState(new ValueStateDescriptor<>("total", Types.LONG));
        }

        @Override
        public void processElement(Tuple2<Long, Long> row, Context context, Collector<Tuple2<Long, Long>> out)
                throws Exception {
            Long before = total.value();
            long now = (before == null ? 0 : before) + row.f1;
            total.update(now);
            out.collect(Tuple2.of(row.f0, now));
        }
    }

    /** 512 bytes of state a key that no compression makes smaller. */
    static final class PaddedSum extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private static final int PADDING = 504;
        private static final byte[] NOISE = new byte[1 << 20];
        private transient ValueState<byte[]> total;

        static {
            new Random(1).nextBytes(NOISE);
        }

        @Override
        public void open(OpenContext context) {
            total = getRuntimeContext()
                    .getState(new ValueStateDescriptor<>("total", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        }

        @Override
        public void processElement(Tuple2<Long, Long> row, Context context, Collector<Tuple2<Long, Long>> out)
                throws Exception {
            byte[] before = total.value();
            long now = (before == null ? 0 : ByteBuffer.wrap(before).getLong()) + row.f1;
            byte[] after = new byte[8 + PADDING];
            ByteBuffer.wrap(after).putLong(now);
            int start = (int) ((row.f0 * 7919 + now) % (NOISE.length - PADDING));
            System.arraycopy(NOISE, start, after, 8, PADDING);
            total.update(after);
            out.collect(Tuple2.of(row.f0, now));
        }
    }

    private static DataStream<Tuple4<Long, Long, Long, Long>> sessions(
            DataStream<Long> numbers, long keys, Map<String, String> task) {
        Duration gap = Duration.ofMillis(Long.parseLong(task.get("gap_ms")));
        Duration delay = Duration.ofMillis(Long.parseLong(task.get("delay_ms")));
        return numbers.map(i -> Tuple3.of(Rows.key("session", keys, i), i % 100 + 1, Rows.time(i)))
                .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG))
                .assignTimestampsAndWatermarks(
                        WatermarkStrategy.<Tuple3<Long, Long, Long>>forBoundedOutOfOrderness(delay)
                                .withTimestampAssigner((row, before) -> row.f2))
                .keyBy(row -> row.f0, Types.LONG)
                .window(EventTimeSessionWindows.withGap(gap))
                .aggregate(new CountAndSum(), new WithBegin());
    }

    static final class CountAndSum
            implements AggregateFunction<Tuple3<Long, Long, Long>, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Tuple3<Long, Long, Long> row, Tuple2<Long, Long> sum) {
            return Tuple2.of(sum.f0 + 1, sum.f1 + row.f1);
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> sum) {
            return sum;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> one, Tuple2<Long, Long> other) {
            return Tuple2.of(one.f0 + other.f0, one.f1 + other.f1);
        }
    }

    static final class WithBegin
            extends ProcessWindowFunction<Tuple2<Long, Long>, Tuple4<Long, Long, Long, Long>, Long, TimeWindow> {
        @Override
        public void process(
                Long key,
                Context context,
                Iterable<Tuple2<Long, Long>> sums,
                Collector<Tuple4<Long, Long, Long, Long>> out) {
            Tuple2<Long, Long> sum = sums.iterator().next();
            out.collect(Tuple4.of(key, context.window().getStart(), sum.f0, sum.f1));
        }
    }
}
