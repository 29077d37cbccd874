update account set balance = balance + :amount where id = :id;
