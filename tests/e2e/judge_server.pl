#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# judge_server.pl DIR [RULE]: a judge for tests: chat completions on a free port of 127.0.0.1, its number in DIR/port.
#
# What it says follows from the response in the question, which stands between <response> tags:
#   say TEXT        TEXT                          status N TEXT   HTTP status N, with TEXT as the error's message
#   fail N M TEXT   N times status M, then TEXT   slow S TEXT     TEXT after S seconds
#   raw TEXT        TEXT as the whole body        hang            nothing, ever
#   drop N TEXT     N times a closed connection   cut TEXT        TEXT, ended by the limit of tokens
#   half N TEXT     N times half of an answer     date N TEXT     N times 429 and the date of the next second, then TEXT
#   chunks TEXT     TEXT in chunks of a byte      huge N          N bytes of one answer
#   drip            a byte now and then, for ever goto URL        a redirect
#   key N           HTTP status N, with the key that came with the question in the message; 200: in the reply
# A comparison is answered by RULE: always-A, longer, or never (no verdict at all). DIR/log gets a line "+ TEXT" when a
# request begins and "- TEXT" when its answer is ready, DIR/request the last request.
use strict;
use warnings;
use IO::Socket::INET;
use Fcntl qw(:flock);

my ($dir, $rule) = (@ARGV, 'longer');
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 64, ReuseAddr => 1)
    or die "cannot listen: $!";
$SIG{CHLD} = 'IGNORE';
$SIG{PIPE} = 'IGNORE';
open(my $port, '>', "$dir/port.new") or die;
print $port $listen->sockport, "\n";
close($port);
rename("$dir/port.new", "$dir/port") or die;

sub note {
    my ($file, $text) = @_;
    open(my $f, '>>', "$dir/$file") or die;
    flock($f, LOCK_EX);
    syswrite($f, "$text\n");
    close($f);
}

# How often this question came before.
sub before {
    my ($key) = @_;
    $key =~ s/[^A-Za-z0-9]/_/g;
    open(my $f, '+>>', "$dir/count-$key") or die;
    flock($f, LOCK_EX);
    seek($f, 0, 0);
    my $n = () = <$f>;
    syswrite($f, "x\n");
    close($f);
    return $n;
}

sub answer {
    my ($c, $status, $body, $more) = @_;
    my $text = "HTTP/1.1 $status Words\r\nContent-Type: application/json\r\nContent-Length: " . length($body) .
        "\r\nConnection: close\r\n" . ($more // '') . "\r\n$body";
    print $c $text;
    close($c);
}

sub content {
    my ($text, $why) = @_;
    return '{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"' . $text . '"},"finish_reason":"' .
        ($why // 'stop') . '"}],"usage":{"total_tokens":1}}';
}

sub serve {
    my ($c) = @_;
    my ($head, $body) = ('', '');
    while ($head !~ /\r\n\r\n/) {
        sysread($c, $head, 65536, length($head)) or return;
    }
    ($head, $body) = split(/\r\n\r\n/, $head, 2);
    my ($length) = $head =~ /content-length: *(\d+)/i;
    while (length($body) < $length) {
        sysread($c, $body, 65536, length($body)) or return;
    }
    open(my $f, '>', "$dir/request.$$") or die;
    print $f "$head\n\n$body\n";
    close($f);
    rename("$dir/request.$$", "$dir/request");

    if ($body =~ m{<response_A>\\n(.*?)\\n</response_A>.*<response_B>\\n(.*?)\\n</response_B>}) {
        my ($x, $y) = ($1, $2);
        note('log', "+ $x | $y");
        note('log', "- $x | $y");
        return answer($c, 200, content('I cannot say.')) if $rule eq 'never' || "$x$y" =~ /mute/;
        return answer($c, 200, content('A')) if $rule eq 'always-A';
        return answer($c, 200, content('Verdict: ' . (length($x) > length($y) ? 'A' : length($x) < length($y) ? 'B' : 'tie')));
    }
    my $r = $body =~ m{<response>\\n(.*?)\\n</response>} ? $1 : 'say none';
    note('log', "+ $r");
    my ($status, $reply, $more) = (200, '', '');
    if ($r =~ /^say (.*)/) {
        $reply = content($1);
    } elsif ($r =~ /^cut (.*)/) {
        $reply = content($1, 'length');
    } elsif ($r =~ /^raw (.*)/) {
        $reply = $1 =~ s/\\"/"/gr;
    } elsif ($r =~ /^slow (\S+) (.*)/) {
        select(undef, undef, undef, $1);
        $reply = content($2);
    } elsif ($r =~ /^status (\d+) (.*)/) {
        ($status, $reply) = ($1, '{"error":{"message":"' . $2 . '","type":"x"}}');
    } elsif ($r =~ /^fail (\d+) (\d+) (.*)/) {
        $more = "Retry-After: 1\r\n" if $2 == 429;
        ($status, $reply) = before($r) < $1 ? ($2, '{"error":"busy"}') : (200, content($3));
    } elsif ($r =~ /^drop (\d+) (.*)/) {
        return if before($r) < $1;
        $reply = content($2);
    } elsif ($r =~ /^hang/) {
        sleep(60);
    } elsif ($r =~ /^drip/) {
        print $c "HTTP/1.1 200 Words\r\n";
        while (print $c "X-Word: x\r\n") {
            $c->flush;
            select(undef, undef, undef, 0.1);
        }
        exit;
    } elsif ($r =~ /^half (\d+) (.*)/) {
        $reply = content($2);
        if (before($r) < $1) {
            print $c "HTTP/1.1 200 Words\r\nContent-Length: 1000\r\n\r\n$reply";
            return;
        }
    } elsif ($r =~ /^chunks (.*)/) {
        print $c "HTTP/1.1 200 Words\r\nTransfer-Encoding: chunked\r\n\r\n", (map { "1\r\n$_\r\n" } split(//, content($1))), "0\r\n\r\n";
        return;
    } elsif ($r =~ /^huge (\d+)/) {
        $reply = content('Score: 9\\n' . 'x' x $1);
    } elsif ($r =~ /^date (\d+) (.*)/) {
        my ($n, $text) = ($1, $2);
        my ($name, $month, $day, $time, $year) = split(/ +/, gmtime(time + 2));
        $more = sprintf("Retry-After: %s, %02d %s %d %s GMT\r\n", $name, $day, $month, $year, $time);
        ($status, $reply) = before($r) < $n ? (429, '{"error":"busy"}') : (200, content($text));
    } elsif ($r =~ /^goto (\S+)/) {
        ($status, $more) = (307, "Location: $1\r\n");
    } elsif ($r =~ /^key (\d+)/) {
        $status = $1;
        my ($key) = $head =~ /^authorization: *(.*?)\r?$/mi;
        $reply = $status == 200 ? content("Score: 5\\n$key") : '{"error":{"message":"' . 'x' x 190 . " $key\"}}";
    }
    note('log', "- $r");
    answer($c, $status, $reply, $more);
}

my $parent = getppid();
while (1) {
    exit if getppid() != $parent; # the test is over
    my $ready = '';
    vec($ready, fileno($listen), 1) = 1;
    next if select($ready, undef, undef, 1) <= 0;
    my $c = $listen->accept() or next;
    my $pid = fork();
    if (defined($pid) && $pid == 0) {
        close($listen);
        serve($c);
        exit;
    }
    close($c);
}
