// A network switch of known speed between "hosts" that are network namespaces of this machine: the kernels of
// small machines have no netem, and shapers that let bursts pass free would make short messages too fast.
//
// Every host has a TAP device and one full-duplex link; hosts may stand in racks that slower links join. A
// frame of B bytes occupies a link for B / rate, and its last bit is there `latency` later (cut-through: the
// links on its way are occupied one behind the other, not one after the other). An uplink serves its
// connections in turn (start-time fair queueing, P. Goyal et al. 1996), so that a short message does not wait
// behind all of another connection's bulk data; the links after it are first come, first served. Queues are
// deep: drops are counted and should not occur. At SIGTERM how late frames were delivered is printed as JSON:
// a run whose lab could not keep its promises can be thrown away.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <map>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace {

using Time = std::int64_t;  // ns of the monotonic clock

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// What a TAP device puts before a frame: struct virtio_net_hdr of linux/virtio_net.h, which is no C++.
struct SegmentHeader {
  std::uint8_t flags, kind;  // kind 0: a packet, not a segment
  std::uint16_t header_length, payload_of_packet, checksum_start, checksum_offset;
};

struct Link;

/// A link of a frame's way, and the time from its end to the beginning of the next.
struct Hop {
  Link* link = nullptr;
  Time after = 0;
};

struct Frame {
  std::vector<char> bytes;  // with the virtio header
  int from = 0, to = 0;
  std::size_t flow = 0;      // of the connection
  double wire = 0;           // bytes that it would take as packets of the MTU
  Time head = 0, tail = 0;   // when first and last bit are where it is
  std::array<Hop, 3> way{};  // behind the uplink
  std::size_t hop = 0;
};
using FramePtr = std::unique_ptr<Frame>;

struct Link {
  double ns_per_byte = 0;
  Time free = 0;

  /// Puts the frame on the link as soon as that is free; a slower link before it may still feed it.
  void carry(Frame& frame) {
    frame.head = std::max(frame.head, free);
    free = frame.head + static_cast<Time>(std::llround(frame.wire * ns_per_byte));
    frame.tail = std::max(frame.tail, free);
  }
};

/// The frames that wait for a host's uplink, by the virtual time at which their turn comes.
struct Uplink {
  Link link;
  std::multimap<double, FramePtr> waiting;
  std::map<std::size_t, double> finish;  // virtual time by connection
  double turn = 0;                       // virtual time of the frame being sent
  bool busy = false;
};

/// A frame reaches the end of a hop, or (without a frame) a host's uplink becomes free.
struct Event {
  Time at = 0;
  std::uint64_t order = 0;
  int host = 0;
  FramePtr frame;
  bool operator<(const Event& other) const {  // a heap's top is its largest
    return std::tie(other.at, other.order) < std::tie(at, order);
  }
};

struct Options {
  std::vector<int> hosts;  // a process in the network namespace of each
  double rate = 1e9, rack_rate = 1e9;
  Time latency = 0, rack_latency = 0;
  int racks = 1;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void enter_network(const std::string& file) {
  const int space = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || ::setns(space, CLONE_NEWNET) != 0) fail(file);
  ::close(space);
}

int open_tap(int process) {
  enter_network(fmt::format("/proc/{}/ns/net", process));
  const int tap = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "lab0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(tap, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  // The kernel hands over segments of up to 64 KiB instead of packets: few frames, little work.
  if (::ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail("TUNSETOFFLOAD");
  return tap;
}

class Switch {
 public:
  explicit Switch(const Options& options) : options_(options) {
    const auto hosts = options.hosts.size();
    per_rack_ = (static_cast<int>(hosts) + options.racks - 1) / options.racks;
    const double per_byte = 8e9 / options.rate, rack_per_byte = 8e9 / options.rack_rate;
    uplinks_.resize(hosts);
    for (Uplink& up : uplinks_) up.link.ns_per_byte = per_byte;
    downlinks_.assign(hosts, {per_byte, 0});
    rack_up_.assign(static_cast<std::size_t>(options.racks), {rack_per_byte, 0});
    rack_down_ = rack_up_;
    for (const int process : options.hosts) taps_.push_back(open_tap(process));
    enter_network(fmt::format("/proc/{}/ns/net", ::getppid()));  // one's own would be the last host's
  }

  void run(const volatile std::sig_atomic_t& stop) {
    std::vector<pollfd> polls;
    for (const int tap : taps_) polls.push_back({tap, POLLIN, 0});
    while (stop == 0) {
      timespec wait{3600, 0};
      if (!events_.empty()) {
        const Time left = std::max<Time>(0, events_.front().at - now());
        wait = {left / 1'000'000'000, left % 1'000'000'000};
      }
      if (::ppoll(polls.data(), polls.size(), &wait, nullptr) > 0)
        for (std::size_t host = 0; host < polls.size(); ++host)
          if (polls[host].revents != 0) receive(static_cast<int>(host));
      for (Time t = now(); !events_.empty() && events_.front().at <= t; t = now()) {
        std::pop_heap(events_.begin(), events_.end());
        Event event = std::move(events_.back());
        events_.pop_back();
        if (event.frame)
          advance(std::move(event.frame), t);
        else
          serve(event.host, event.at);
      }
    }
  }

  [[nodiscard]] std::string statistics() const {
    return fmt::format(
        R"({{"frames": {}, "bytes": {:.0f}, "drops": {}, "late_mean_us": {:.1f}, "late_max_us": {:.1f}, "late_over_50us": {}}})",
        frames_, bytes_, drops_, frames_ > 0 ? late_sum_ / 1e3 / static_cast<double>(frames_) : 0.0,
        static_cast<double>(late_max_) / 1e3, late_frames_);
  }

 private:
  void receive(int host);
  void enter(FramePtr frame);
  void serve(int host, Time at);
  void advance(FramePtr frame, Time at);
  void schedule(Time at, int host, FramePtr frame) {
    events_.push_back({at, order_++, host, std::move(frame)});
    std::push_heap(events_.begin(), events_.end());
  }

  const Options& options_;
  int per_rack_ = 1;
  std::vector<int> taps_;
  std::vector<Uplink> uplinks_;
  std::vector<Link> downlinks_, rack_up_, rack_down_;
  std::vector<Event> events_;
  std::uint64_t order_ = 0;
  std::size_t queued_ = 0;
  std::uint64_t frames_ = 0, drops_ = 0, late_frames_ = 0;
  double bytes_ = 0, late_sum_ = 0;
  Time late_max_ = 0;
};

constexpr std::size_t kEthernet = 14;  // bytes of header
constexpr std::size_t kDeepest = 256U << 20;

/// A segment that the kernel left whole is as many packets, each with its headers.
double wire_bytes(const Frame& frame) {
  SegmentHeader header{};
  std::memcpy(&header, frame.bytes.data(), sizeof header);
  const double size = static_cast<double>(frame.bytes.size() - sizeof header);
  if (header.kind == 0 || header.payload_of_packet == 0) return size;
  const double packets = std::ceil((size - header.header_length) / header.payload_of_packet);
  return size + (std::max(1.0, packets) - 1) * header.header_length;
}

/// Ports of a TCP packet over IPv4 without options; 0 for anything else.
std::size_t flow_of(const Frame& frame) {
  constexpr std::size_t kPorts = sizeof(SegmentHeader) + kEthernet + 20;
  if (frame.bytes.size() < kPorts + 4) return 0;
  std::uint32_t ports = 0;
  std::memcpy(&ports, frame.bytes.data() + kPorts, sizeof ports);
  return ports;
}

void Switch::receive(int host) {
  std::array<char, sizeof(SegmentHeader) + 65536 + 64> buffer{};
  for (int burst = 0; burst < 32; ++burst) {
    const ssize_t size = ::read(taps_[static_cast<std::size_t>(host)], buffer.data(), buffer.size());
    if (size < 0) return;
    // Host i has the address 02:00:00:00:00:i+1; neighbours are known, so that nothing is broadcast.
    if (size < static_cast<ssize_t>(sizeof(SegmentHeader) + kEthernet + 1)) continue;
    const int to = static_cast<unsigned char>(buffer[sizeof(SegmentHeader) + 5]) - 1;
    const bool is_multicast = (buffer[sizeof(SegmentHeader)] & 1) != 0;
    if (is_multicast || to < 0 || to == host || to >= static_cast<int>(taps_.size())) continue;
    if (queued_ > kDeepest) {
      ++drops_;
      continue;
    }
    auto frame = std::make_unique<Frame>();
    frame->bytes.assign(buffer.data(), buffer.data() + size);
    frame->from = host;
    frame->to = to;
    frame->flow = flow_of(*frame);
    frame->wire = wire_bytes(*frame);
    frame->head = frame->tail = now();
    enter(std::move(frame));
  }
}

void Switch::enter(FramePtr frame) {
  const int host = frame->from, rack = host / per_rack_, other = frame->to / per_rack_;
  const Hop down{&downlinks_[static_cast<std::size_t>(frame->to)], 0};
  if (rack == other)
    frame->way = {down};
  else
    frame->way = {Hop{&rack_up_[static_cast<std::size_t>(rack)], 0},
                  Hop{&rack_down_[static_cast<std::size_t>(other)], options_.rack_latency}, down};
  queued_ += frame->bytes.size();
  ++frames_;
  bytes_ += frame->wire;
  Uplink& up = uplinks_[static_cast<std::size_t>(host)];
  const double turn = std::max(up.turn, up.finish[frame->flow]);
  up.finish[frame->flow] = turn + frame->wire;
  const Time at = frame->head;
  up.waiting.emplace(turn, std::move(frame));
  if (!up.busy) serve(host, at);
}

void Switch::serve(int host, Time at) {
  Uplink& up = uplinks_[static_cast<std::size_t>(host)];
  up.busy = !up.waiting.empty();
  if (!up.busy) return;
  auto next = up.waiting.extract(up.waiting.begin());
  up.turn = next.key();
  FramePtr frame = std::move(next.mapped());
  frame->head = frame->tail = std::max(frame->head, at);
  up.link.carry(*frame);
  frame->head += options_.latency;
  frame->tail += options_.latency;
  schedule(up.link.free, host, nullptr);
  const Time arrival = frame->head;
  schedule(arrival, host, std::move(frame));
}

void Switch::advance(FramePtr frame, Time at) {
  if (frame->hop < frame->way.size() && frame->way[frame->hop].link != nullptr) {
    const Hop& hop = frame->way[frame->hop++];
    hop.link->carry(*frame);
    frame->head += hop.after;
    frame->tail += hop.after;
    const bool is_last = frame->hop == frame->way.size() || frame->way[frame->hop].link == nullptr;
    const Time next = is_last ? frame->tail : frame->head;
    const int host = frame->from;
    schedule(next, host, std::move(frame));
    return;
  }
  const Time late = at - frame->tail;
  late_sum_ += static_cast<double>(late);
  late_max_ = std::max(late_max_, late);
  if (late > 50'000) ++late_frames_;
  queued_ -= frame->bytes.size();
  const auto size = static_cast<ssize_t>(frame->bytes.size());
  if (::write(taps_[static_cast<std::size_t>(frame->to)], frame->bytes.data(), frame->bytes.size()) != size)
    ++drops_;
}

volatile std::sig_atomic_t stopped = 0;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A switch of known speed between network namespaces.", "lab-switch"};
  Options options;
  app.add_option("hosts", options.hosts, "a process in each namespace")->required();
  app.add_option("--rate", options.rate, "bit/s of a host's link")->check(CLI::PositiveNumber);
  app.add_option("--latency", options.latency, "ns from a host to another in its rack");
  app.add_option("--racks", options.racks)->check(CLI::PositiveNumber);
  app.add_option("--rack-rate", options.rack_rate, "bit/s of a rack's link")->check(CLI::PositiveNumber);
  app.add_option("--rack-latency", options.rack_latency, "ns more between racks");
  CLI11_PARSE(app, argc, argv);
  try {
    Switch lab(options);
    sched_param priority{};
    priority.sched_priority = 10;
    ::sched_setscheduler(0, SCHED_FIFO, &priority);  // better where allowed; the statistics tell
    ::mlockall(MCL_CURRENT);
    std::signal(SIGTERM, [](int) { stopped = 1; });
    fmt::print("ready\n");
    std::fflush(stdout);
    lab.run(stopped);
    fmt::print("{}\n", lab.statistics());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lab-switch: {}\n", error.what());
    return 1;
  }
}
